"""The corpus in other orders, several times in one process, where whatever one program leaves behind (caches,
modes, freed objects whose ids come again) meets all the others.

`python tests/soundness/shuffled.py SEED [SEED ...]`: one round for each seed, all in this process.
"""

from __future__ import annotations

import random
import sys

import adapter
from corpus.backends import with_identity_jit
from corpus.programs import CASES
from corpus.runs import compare, run_case

TOLERANCE = {"rtol": 2e-5, "dtype": True}


def differences(seed: int, warm: int = 3) -> list[str]:
    """What differs from eager when all programs are run in the order of `seed`."""
    cases = list(CASES)
    random.Random(seed).shuffle(cases)
    reference = with_identity_jit(adapter)
    found = []
    for case in cases:
        expected = run_case(case, reference, warm)
        verdict, why = compare(expected, run_case(case, adapter, warm), TOLERANCE)
        if verdict != "pass":
            found.append(f"seed {seed}: {case.id}: {verdict}: {why}")
    return found


if __name__ == "__main__":
    failed = 0
    for number in map(int, sys.argv[1:]):
        texts = differences(number)
        failed += len(texts)
        print("\n".join([*texts, f"seed {number}: {len(CASES) - len(texts)} pass"]), flush=True)
    sys.exit(bool(failed))
