"""Loading data: datasets, samplers, collation, and loaders with workers, as `torch.utils.data`."""
