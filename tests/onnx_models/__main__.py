"""Exports the models of this folder, or of libraries, and says which onnxruntime agrees about."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

SOURCES = ("own", "timm", "transformers")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m onnx_models", description=__doc__)
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help=f"of {', '.join(SOURCES)}; own if none")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="these models")
    parser.add_argument("--here", action="store_true", help="in this process, not in the library's venv")
    parser.add_argument("--trace", action="store_true", help="with tracebacks")
    given = parser.parse_args()
    for source in given.sources or ["own"]:
        if source == "own" or given.here:
            run(source, given.only, given.trace)
        else:
            in_its_venv(source, sys.argv[1:])


def in_its_venv(source: str, words: list[str]) -> None:
    """Run this program where a library is, with fusegrad in torch's place."""
    from libraries import runs, venvs

    options = [word for word in words if word not in SOURCES]
    command = [
        venvs.python_of(source),
        "-m",
        "fusegrad.torch",
        "-m",
        "onnx_models",
        source,
        "--here",
        *options,
    ]
    subprocess.run(command, env=runs.environment("fusegrad"), cwd=Path(__file__).parents[1], check=False)


def run(source: str, only: list[str] | None, trace: bool) -> None:
    """Say of each model of a source whether onnxruntime agrees, or why there is no file."""
    from onnx_models.check import check

    models: dict[str, Callable[..., object]] = importlib.import_module(f"onnx_models.{source}_models").MODELS
    agreed = 0
    kinds: Counter[str] = Counter()
    asked = {name: make for name, make in models.items() if not only or name in only}
    for name, make in asked.items():
        start = time.perf_counter()
        try:
            found = check(make)
            kinds |= found
            agreed += 1
            told = f"agrees, {sum(found.values())} nodes"
        except Exception as error:
            if trace:
                traceback.print_exc()
            told = f"NO: {type(error).__name__}: " + " ".join(str(error).split())[:600]
        print(f"{name} ({time.perf_counter() - start:.1f} s): {told}", flush=True)
    print(f"{source}: {agreed} of {len(asked)} agree")


if __name__ == "__main__":
    main()
