"""Loaders, as `torch.utils.data.dataloader`."""

from fusegrad.eager.data.collate import default_collate as default_collate, default_convert as default_convert
from fusegrad.eager.data.loader import DataLoader as DataLoader
from fusegrad.eager.data.worker import get_worker_info as get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
