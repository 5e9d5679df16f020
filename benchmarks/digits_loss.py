"""The loss of `examples/digits.py` on one batch, value and all gradients, beside its peers.

python benchmarks/digits_loss.py [--json FILE] [--quick]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import harness
from digits import BATCH, data, loss, loss_jax, loss_torch, start

import fusegrad as fg


def main() -> None:
    options = harness.options("time the loss of the digits example")
    peers = {"torch": loss_torch, "jax": loss_jax}
    if not options.quick:
        peers["torch.compile"] = loss_torch
    x, labels, _, _ = data()
    found = fg.compare(loss, x[:BATCH], labels[:BATCH], *start(), peers=peers, repeat=options.repeat)
    harness.save(options.json, {"benchmark": "digits_loss", **found.as_dict()})


if __name__ == "__main__":
    main()
