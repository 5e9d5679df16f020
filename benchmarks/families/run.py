"""The families of programs beside their peers: `python benchmarks/families/run.py --help`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from families.command import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
