"""First on the path, this is what `import torch` finds in a process that such a program starts."""

from fusegrad.torch import install

install()
