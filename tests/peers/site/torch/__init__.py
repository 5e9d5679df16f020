"""First on the path, this is what `import torch` finds: fusegrad in its place."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from peers import face

face.install(Path(os.environ["PEERS_CHECKOUT"]) if "PEERS_CHECKOUT" in os.environ else None)
