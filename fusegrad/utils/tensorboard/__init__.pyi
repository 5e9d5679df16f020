"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.utils.tensorboard import FileWriter as FileWriter, SummaryWriter as SummaryWriter
from fusegrad.utils.tensorboard import writer as writer
