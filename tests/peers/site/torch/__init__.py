"""What `import torch` finds in programs that PyTorch's tests start: fusegrad, and the checkout's tools."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from peers.checkout import Finder

from fusegrad.torch import install

install(Finder(Path(os.environ["PEERS_CHECKOUT"]) if "PEERS_CHECKOUT" in os.environ else None))
