"""The chain of `examples/gelu_chain.py`, value and both gradients, at four sizes, beside its peers.

python benchmarks/chain.py [--json FILE] [--quick]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import harness
from gelu_chain import chain, chain_args, chain_jax, chain_torch

import fusegrad as fg

SIZES = (1_000, 100_000, 1_000_000, 10_000_000)


def main() -> None:
    options = harness.options("time a chain of elementwise ops with a sum")
    peers = {"torch": chain_torch, "jax": chain_jax}
    if not options.quick:
        peers["torch.compile"] = chain_torch
    figures = {}
    for size in SIZES[:1] if options.quick else SIZES:
        found = fg.compare(chain, *chain_args(size), peers=peers, repeat=options.repeat)
        figures[str(size)] = found.as_dict()
        print()
    harness.save(options.json, {"benchmark": "chain", "sizes": figures})


if __name__ == "__main__":
    main()
