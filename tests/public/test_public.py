"""How public scripts are run and told of, by a script of our own: its steps, what is replayed, errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from oracle import torch

from public import one_script, page, runs

SCRIPT = """
import numpy as np, requests, torch, torchvision
from torch.utils.data import DataLoader
images = torchvision.datasets.MNIST("data", train=True, transform=torchvision.transforms.ToTensor())
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
optimizer = torch.optim.Adam(net.parameters())
assert open("words/train.txt").read() and requests.get("graph")
for x, y in DataLoader(images, batch_size=8):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path) -> runs.Script:
    pytest.importorskip("PIL")  # of which the images are
    (tmp_path / "train.py").write_text(SCRIPT)
    return runs.Script("somebody/scripts", "train.py", (), tmp_path)


@pytest.mark.parametrize("way", runs.WAYS)
def test_a_script_makes_its_steps(script: runs.Script, way: str):
    if way == "torch":
        torch.ones(1)
    told = script.run(way, steps=15, short=0)
    assert (told["error"], len(told["seconds"]), told["optimizers"]) == ("", 15, 1)
    assert told["model_calls"] == [*range(1, 16)]
    if way == "compiled":
        assert (told["calls"], told["entered"]) == (20, 0)


def test_what_is_missing_and_what_fails_is_told(script: runs.Script):
    (script.folder / script.path).write_text("import torch\ntorch.nothing_of_that_name(3)")
    told = script.run("fusegrad")
    assert "nothing_of_that_name" in told["error"]
    assert "nothing_of_that_name" in told["missing"]


def test_a_script_that_takes_too_long_is_ended(script: runs.Script):
    (script.folder / script.path).write_text("while True: pass")
    assert script.run("fusegrad", seconds=3)["error"] == "made no 20 steps in 3 s"


def outcome(compiled: dict[str, object]) -> runs.Outcome:
    told = {"error": "", "seconds": [0.0, 1.0, 2.0, 3.0], "model_calls": [2, 4, 6, 8], "optimizers": 1}
    quick = {"error": "", "seconds": [0.0, 0.5, 1.0, 1.5], "model_calls": [2, 4, 6, 8], "optimizers": 1}
    return runs.Outcome("a/b", "c.py", {"torch": told, "fusegrad": told, "compiled": {**quick, **compiled}})


def test_speed_and_replays_are_summed_up():
    outcomes = [outcome({"calls": 10, "entered": 1}), outcome({"calls": 10, "entered": 2})]
    assert [o.replays() for o in outcomes] == [True, False]
    assert page.line(outcomes[0]) == "| b/c.py | yes | yes | 1000.00 | 1.00 | 2.00 |"
    assert page.line(outcomes[1]) == "| b/c.py | yes | 8 of 10 calls | 1000.00 | 1.00 | 2.00 |"
    assert "2 of these run unchanged (100%), 1 replay (50%) and 1 of those" in page.summary(outcomes)


def test_an_error_after_all_steps_is_the_scripts_own_if_pytorch_has_it_too():
    many = {"seconds": [float(n) for n in range(50)], "model_calls": [*range(50)], "error": "stopped"}
    late = outcome({**many, "calls": 10, "entered": 0})
    assert not late.runs("compiled") and late.runs("torch")
    late.found["torch"].update(many)
    assert late.runs("compiled") and late.runs("torch") and late.replays()
    late.found["torch"]["seconds"] = [0.0, 1.0]
    assert not late.runs("torch") and not late.runs("compiled")


def test_the_middle_one_of_close_runs_counts():
    fast, slow, none = (outcome({"seconds": [n * t for n in range(4)]}) for t in (0.8, 1.1, 0.9))
    none.found["compiled"]["error"] = "stopped"
    assert fast.is_close() and slow.is_close() and not outcome({}).is_close() and not none.is_close()
    assert fast.middle_of([slow, outcome({})]).pace("compiled") == fast.pace("compiled")
    assert slow.middle_of([none, none]).pace("compiled") == slow.pace("compiled")


def test_classes_are_left_alone_once_there_was_a_step():
    """Whoever sets an attribute of a class has guards on it look at it anew."""
    changes: list[str] = []

    class Noticed(type):
        def __setattr__(cls, name: str, value: object) -> None:
            changes.append(name)
            super().__setattr__(name, value)

    class Kind(metaclass=Noticed):
        def __init__(self) -> None:
            pass

    steps = one_script.Steps(10, 0.0, 1.0)
    compiled = one_script.Compiled(lambda method: method, steps, 100, [Kind])
    call, made = compiled.compiled(lambda owner: 1), Kind()
    call(made)
    assert changes == ["__init__"] * 3  # noted, not within the call, and noted again
    steps.seconds.append(0.0)
    for _ in range(5):
        call(made)
    assert changes == ["__init__"] * 4


def test_steps_that_take_no_time_go_on():
    steps = one_script.Steps(4, 1.0, 10.0)
    ends = [steps.start + after for after in (5.0, 5.1, 5.2, 5.3, 5.9, 6.0)]
    enough = []
    for end in ends:
        steps.seconds.append(end)
        enough.append(steps.are_enough())
    assert enough == [False] * 5 + [True]
    steps.seconds = [steps.start + 6, steps.start + 11]
    assert steps.are_enough()  # half of them took long


def test_steps_of_more_calls_count_as_more_work():
    longer = outcome({"seconds": [0.0, 10.0, 20.0, 30.0], "model_calls": [40, 80, 120, 160]})
    assert longer.speed("compiled") == 2
    without_modules = outcome({"model_calls": [0, 0, 0, 0]})
    without_modules.found["torch"]["model_calls"] = [0, 0, 0, 0]
    assert without_modules.speed("compiled") == 2


def test_every_listed_script_has_a_repository():
    command = [sys.executable, "-m", "public", "--help"]
    assert subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True).returncode == 0
    listed = list(runs.scripts(Path("nowhere")))
    assert len({(s.source, s.path) for s in listed}) == len(listed) >= 60
