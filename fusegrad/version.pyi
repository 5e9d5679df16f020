"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

cuda: None
debug: bool
hip: None
xpu: None
