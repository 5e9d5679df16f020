"""`torch.distributed.rpc`: of one process, there is nobody to call."""
