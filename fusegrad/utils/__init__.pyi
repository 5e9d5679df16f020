"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.utils import checkpoint as checkpoint, data as data, tensorboard as tensorboard
