"""Sizes and indices that come from data: whatever they are, an error or an answer, never a broken process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from planted import finds

resource = pytest.importorskip("resource")

# Each asks for more than there is room for, or for what lies outside. LARGEST is the largest int64.
REFUSED = """
fg.bincount(fg.tensor([LARGEST] * 50 + [0, 0]), minlength=3)
fg.bincount(fg.tensor([LARGEST]), fg.ones(1))
fg.bincount(fg.tensor([LARGEST - 1]))
fg.bincount(fg.tensor([0]), minlength=LARGEST)
fg.histc(fg.ones(3), LARGEST)
fg.histogram(fg.ones(3), LARGEST)
fg.histogramdd(fg.ones(3, 3), [2**40, 2**40, 2**40])
F.one_hot(fg.tensor([LARGEST]))
F.one_hot(fg.tensor([LARGEST - 1]))
F.one_hot(fg.tensor([0]), LARGEST)
F.one_hot(fg.tensor([0]), 2**62)
fg.repeat_interleave(fg.ones(2), LARGEST)
fg.repeat_interleave(fg.ones(2), fg.tensor([LARGEST, LARGEST]))
fg.repeat_interleave(fg.tensor([LARGEST, 1]))
fg.repeat_interleave(fg.tensor([-1, 3]))
fg.repeat_interleave(fg.tensor([1, 3]), output_size=LARGEST)
F.embedding(fg.tensor([LARGEST]), fg.ones(3, 2))
F.embedding_bag(fg.tensor([0, 1]), fg.ones(3, 2), fg.tensor([0, LARGEST]))
fg.ones(4).unfold(0, LARGEST, 1)
fg.ones(4).unfold(0, 2, -1)
fg.ones(4).as_strided((2,), (LARGEST,))
fg.ones(4).as_strided((LARGEST,), (1,))
fg.ones(4).as_strided((LARGEST, LARGEST), (0, 0))
fg.ones(4).as_strided((2,), (1,), LARGEST)
fg.ones(4).as_strided((2**62,), (2**62,))
fg.ones(4).as_strided((2**32, 2**32), (2**32, 1))
fg.ones(0).as_strided((1,), (1,))
fg.as_strided_scatter(fg.ones(4), fg.ones(2), (2,), (LARGEST,))
fg.arange(LARGEST)
fg.arange(2**62)
fg.arange(0, LARGEST, 1.0)
fg.arange(-LARGEST, LARGEST)
fg.range(0, 1e300)
fg.linspace(0, 1, LARGEST)
fg.logspace(0, 1, LARGEST)
fg.eye(LARGEST)
fg.zeros(2**32, 2**32)
fg.randperm(LARGEST)
fg.tril_indices(LARGEST, LARGEST)
fg.triu_indices(LARGEST, 2)
fg.vander(fg.ones(3), LARGEST)
fg.combinations(fg.ones(200), 100)
fg.fft.fftfreq(LARGEST)
fg.fft.fft(fg.ones(4), n=LARGEST)
fg.multinomial(fg.ones(3), LARGEST, replacement=True)
fg.multinomial(fg.ones(3), LARGEST)
F.pad(fg.ones(2, 2), (LARGEST, LARGEST))
F.pad(fg.ones(1, 2, 2), (LARGEST, 0), mode="replicate")
F.pad(fg.ones(1, 2, 2), (LARGEST, 0), mode="circular")
F.adaptive_avg_pool1d(fg.ones(1, 1, 4), LARGEST)
F.adaptive_max_pool1d(fg.ones(1, 1, 4), 2**62)
F.interpolate(fg.ones(1, 1, 2, 2), size=(LARGEST, LARGEST), mode="bilinear")
F.interpolate(fg.ones(1, 1, 2), scale_factor=float("inf"))
F.max_unpool1d(fg.ones(1, 1, 2), fg.tensor([[[0, LARGEST]]]), 2)
F.fold(fg.ones(1, 4, 9), (LARGEST, LARGEST), 2)
F.unfold(fg.ones(1, 1, 4, 4), 2, padding=LARGEST)
F.ctc_loss(fg.zeros(5, 1, 3), fg.tensor([[1, 2]]), fg.tensor([LARGEST]), fg.tensor([2]))
F.ctc_loss(fg.zeros(5, 1, 3), fg.tensor([[1, 2]]), fg.tensor([5]), fg.tensor([LARGEST]))
F.ctc_loss(fg.zeros(5, 1, 3), fg.tensor([[1, 2]]), fg.tensor([-5]), fg.tensor([2]))
fg.ones(4).tensor_split(LARGEST)
fg.ones(4).tensor_split(2**62)
fg.ones(4).resize_(LARGEST)
fg.empty_strided((4,), (LARGEST,))
fg.frombuffer(b"1234", dtype=fg.float32, count=LARGEST)
fg.frombuffer(b"1234", dtype=fg.float32, offset=LARGEST)
fg.frombuffer(b"", dtype=fg.float32)
fg.ones(2).repeat(LARGEST)
fg.ones(1).expand(LARGEST) + 1
fg.ones(2)[fg.tensor([LARGEST])]
fg.ones(2).take(fg.tensor([-LARGEST]))
fg.ones(2).put_(fg.tensor([LARGEST]), fg.ones(1))
fg.ones(2).scatter_add(0, fg.tensor([LARGEST]), fg.ones(1))
fg.ones(2).index_add(0, fg.tensor([LARGEST]), fg.ones(1))
fg.lu_solve(fg.ones(2, 1), fg.eye(2), fg.tensor([99, -7], dtype=fg.int32))
rnn.pad_packed_sequence(rnn.PackedSequence(fg.ones(2), fg.tensor([LARGEST])))
rnn.pad_packed_sequence(rnn.pack_sequence([fg.ones(2)]), total_length=LARGEST)
rnn.pack_padded_sequence(fg.ones(2, 1), fg.tensor([LARGEST]))
""".strip().splitlines()

# With little memory, so that what asks for all of it is refused at once on any machine.
PROGRAM = """
import json, resource, sys
import fusegrad as fg
from fusegrad.nn.utils import rnn

F, LARGEST = fg.nn.functional, 2**63 - 1
for repeat in range(2):  # heaps tell of their corruption late
    for call in CALLS:
        if repeat == 0:
            resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30,) * 2)
        try:
            outcome = "gave " + repr(eval(call))[:80]
        except (IndexError, MemoryError, RuntimeError, ValueError, TypeError) as error:
            outcome = ""
        except BaseException as error:
            outcome = repr(error)
        print(json.dumps([call, outcome]), flush=True)
"""


def outcomes_of(calls, planted=""):
    """What each call came to, the exit code of the process and what it wrote; planted: a statement before."""
    program = PROGRAM.replace("CALLS", repr(calls)).replace("\nF, ", f"\n{planted}\nF, ")
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    said = dict(map(json.loads, run.stdout.splitlines()))
    return said, run.returncode, run.stderr


@pytest.fixture(scope="module")
def outcomes():
    return outcomes_of(REFUSED)


def test_the_process_lives(outcomes):
    said, code, errors = outcomes
    assert code == 0, (list(said)[-1:], errors[-1000:])


@pytest.mark.parametrize("call", REFUSED)
def test_refused_with_an_error_of_the_documented_kinds(outcomes, call):
    assert outcomes[0].get(call, "not reached") == ""


BINCOUNT = "fg.bincount(fg.tensor([LARGEST]))"
PLANTED = {
    "a process that ends": "fg.bincount = lambda counts: __import__('os').abort()",
    "an answer": "fg.bincount = lambda counts: fg.zeros(3)",
    "an error of another kind": "fg.bincount = lambda counts: {}['key']",
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_size_that_is_not_looked_at_is_found(fault):
    found = outcomes_of([BINCOUNT], PLANTED[fault])
    assert finds(test_the_process_lives, found) is (fault == "a process that ends")
    assert finds(test_refused_with_an_error_of_the_documented_kinds, found, BINCOUNT)
    assert not finds(test_refused_with_an_error_of_the_documented_kinds, outcomes_of([BINCOUNT]), BINCOUNT)
