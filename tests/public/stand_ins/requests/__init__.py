"""Answers every request with the archive of a graph."""

import contextlib
import io
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.append(str(Path(__file__).parents[2]))
from data import cora


@contextlib.contextmanager
def get(address, **options):
    yield SimpleNamespace(raw=io.BytesIO(cora()))
