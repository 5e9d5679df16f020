"""What `import torch` finds in programs that PyTorch's tests start: fusegrad, and the checkout's tools."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from multiprocessing import process

from peers.checkout import Finder
from peers.missing import reading

from fusegrad.torch import install

install(Finder(Path(os.environ["PEERS_CHECKOUT"]) if "PEERS_CHECKOUT" in os.environ else None))


def bootstrap(self, *args, **kwargs):
    """A process that was spawned has read its test file, where names that are not there may be mentioned."""
    file_read.__exit__(None, None, None)
    return started(self, *args, **kwargs)


if getattr(process.current_process(), "_inheriting", False):
    file_read, started = reading(), process.BaseProcess._bootstrap
    file_read.__enter__()
    process.BaseProcess._bootstrap = bootstrap
