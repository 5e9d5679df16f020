"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.data.collate import default_collate as default_collate, default_convert as default_convert
from fusegrad.eager.data.loader import DataLoader as DataLoader
from fusegrad.eager.data.worker import get_worker_info as get_worker_info
