"""`torch.utils.collect_env`: what people put into reports."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

import fusegrad as fg

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info() -> str:
    """The machine and the versions, line by line. Source: `torch.utils.collect_env.get_pretty_env_info`."""
    rows = {
        "fusegrad version": f"{fg.__version__}, in the place of PyTorch",
        "OS": platform.platform(),
        "Python version": sys.version.replace("\n", " "),
        "Is CUDA available": "False",
        "CPU": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "numpy": np.__version__,
    }
    return "\n".join(f"{name}: {value}" for name, value in rows.items())


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())
