"""Several processes that compute together, as `torch.distributed` has them: for now a world of one rank."""
