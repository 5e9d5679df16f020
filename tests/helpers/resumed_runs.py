"""Programs that train or infer, each of which can be stopped at a step and go on in another process.

As a script it goes on with all of them: `resumed_runs.py FOLDER STEP` reads what `trained` has left there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad.nn import functional as F

STEPS = 10
STOPS = (1, 4, 8)


@dataclass
class Run:
    """step: gives what a step computes. kept: what has a state_dict. jitted: the functions that are."""

    step: Callable[[int], Any]
    kept: list[Any]
    jitted: list[Any]
    generators: list[Any] = field(default_factory=list)


PROGRAMS: dict[str, Callable[[], Run]] = {}


def program(make: Callable[[], Run]) -> Callable[[], Run]:
    PROGRAMS[make.__name__] = make
    return make


def network(*layers: Any) -> Any:
    return fg.nn.Sequential(fg.nn.Linear(12, 32), *layers, fg.nn.Tanh(), fg.nn.Linear(32, 4))


def batch(size: int = 16) -> tuple[Any, Any]:
    return fg.randn(size, 12), fg.randint(0, 4, (size,))


def trains(model: Any, optimizer: Any, *schedules: Any) -> Run:
    """A whole step in one call."""

    @fg.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        for schedule in schedules:
            schedule.step()
        return loss

    return Run(lambda _: step(*batch()), [model, optimizer, *schedules], [step])


@program
def momentum():
    model = network()
    return trains(model, fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


@program
def adam_with_dropout():
    model = network(fg.nn.Dropout(0.3))
    return trains(model, fg.optim.Adam(model.parameters(), lr=0.01))


@program
def adamw_with_a_schedule():
    model = network()
    optimizer = fg.optim.AdamW(model.parameters(), lr=0.01)
    return trains(model, optimizer, fg.optim.lr_scheduler.StepLR(optimizer, 3, 0.5))


@program
def batch_norm():
    model = network(fg.nn.BatchNorm1d(32))
    return trains(model, fg.optim.RMSprop(model.parameters(), lr=0.01))


@program
def lstm():
    model = fg.nn.LSTM(12, 8, batch_first=True)
    optimizer = fg.optim.Adam(model.parameters(), lr=0.01)

    @fg.jit
    def step(x):
        optimizer.zero_grad()
        loss = model(x)[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return Run(lambda _: step(fg.randn(3, 5, 12)), [model, optimizer], [step])


@program
def loss_alone():
    """Backward follows, outside: as a rule forward and backward become one program at the fifth call."""
    model = network()
    optimizer = fg.optim.Adam(model.parameters(), lr=0.01)
    loss_of = fg.jit(lambda x, y: F.cross_entropy(model(x), y))

    def step(_):
        optimizer.zero_grad()
        loss = loss_of(*batch())
        loss.backward()
        fg.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    return Run(step, [model, optimizer], [loss_of])


@program
def loss_that_is_derived_now_and_then():
    model = network()
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    loss_of = fg.jit(lambda x, y: F.cross_entropy(model(x), y))

    def step(number):
        loss = loss_of(*batch())
        if number % 4 != 1:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss

    return Run(step, [model, optimizer], [loss_of])


@program
def two_optimizers():
    maker, judge = network(), fg.nn.Linear(4, 1)
    first = fg.optim.Adam(maker.parameters(), lr=0.01)
    second = fg.optim.Adagrad(judge.parameters(), lr=0.05)

    @fg.jit
    def step(x):
        second.zero_grad()
        F.softplus(judge(maker(x).detach())).mean().backward()
        second.step()
        first.zero_grad()
        loss = F.softplus(-judge(maker(x))).mean()
        loss.backward()
        first.step()
        return loss

    return Run(lambda _: step(fg.randn(16, 12)), [maker, judge, first, second], [step])


@program
def gradients_gathered():
    model = network()
    optimizer = fg.optim.Adam(model.parameters(), lr=0.01)

    @fg.jit
    def gather(x, y):
        loss = F.cross_entropy(model(x), y) / 3
        loss.backward()
        return loss

    @fg.jit
    def update():
        optimizer.step()
        optimizer.zero_grad()

    def step(_):
        losses = [gather(*batch()) for _ in range(3)]
        update()
        return fg.stack(losses)

    return Run(step, [model, optimizer], [gather, update])


@program
def branch_on_data():
    model = network()
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)

    @fg.jit
    def step(x, y):
        optimizer.zero_grad()
        h = model(x)
        if x.abs().max() > 50:
            h = h.tanh() * 2
        loss = F.cross_entropy(h, y)
        loss.backward()
        optimizer.step()
        return loss

    def scaled(number):
        x, y = batch()
        return step(x * 100 if number >= 7 else x, y)

    return Run(scaled, [model, optimizer], [step])


@program
def modes_that_change():
    model = network(fg.nn.Dropout(0.5))
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    run = trains(model, optimizer)

    def step(number):
        model.train(number % 3 != 2)
        return run.step(number)

    return Run(step, run.kept, run.jitted)


@program
def runs_that_are_open_for_a_while():
    model, lines = network(), []
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    @fg.jit
    def step(x, y, tells):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if tells:
            lines.append("a line")
        loss.backward()
        optimizer.step()
        return loss

    return Run(lambda number: step(*batch(), number < 6 or number == 9), [model, optimizer], [step])


@program
def sizes_and_numbers():
    model = network()
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)

    @fg.jit
    def step(x, y, smoothing):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=smoothing)
        loss.backward()
        optimizer.step()
        return loss

    return Run(lambda number: step(*batch(5 + number % 4), 0.01 * number), [model, optimizer], [step])


SCALE = 1.0


@program
def a_number_from_outside():
    model = network()
    optimizer = fg.optim.Adam(model.parameters(), lr=0.01)

    @fg.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x) * SCALE, y)
        loss.backward()
        optimizer.step()
        return loss

    def scaled(number):
        global SCALE
        SCALE = 1 + number / 8
        return step(*batch())

    return Run(scaled, [model, optimizer], [step])


@program
def a_generator_of_its_own():
    model, generator = network(), fg.Generator().manual_seed(3)
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)

    @fg.jit
    def step(x, y):
        optimizer.zero_grad()
        noise = fg.randn(16, 12, generator=generator)
        noise.mul_(0.1)
        loss = F.cross_entropy(model(x + noise), y)
        loss.backward()
        optimizer.step()
        return loss, noise

    return Run(
        lambda _: fg.cat([t.flatten() for t in step(*batch())]), [model, optimizer], [step], [generator]
    )


@program
def running_average():
    model, average = network(), network()
    optimizer = fg.optim.Adadelta(model.parameters())

    @fg.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with fg.no_grad():
            for mine, kept in zip(model.parameters(), average.parameters(), strict=True):
                kept.lerp_(mine, 0.1)
        return loss

    return Run(lambda _: step(*batch()), [model, average, optimizer], [step])


@program
def gradients_of_a_function():
    weights = fg.nn.Linear(12, 4)
    derive = fg.jit(fg.value_and_grad(lambda w, x, y: F.cross_entropy(x @ w.T, y)))

    def step(_):
        loss, gradient = derive(weights.weight, *batch())
        with fg.no_grad():
            weights.weight.sub_(gradient, alpha=0.1)
        return loss

    return Run(step, [weights], [derive])


@program
def large():
    """Ops that wait in a first call, as a rule."""
    weights = fg.nn.Linear(600, 512)

    @fg.jit
    def forward(x):
        with fg.no_grad():
            return (weights(x).relu() * 2).softmax(1).sum(0)

    return Run(lambda _: forward(fg.randn(520, 600)), [weights], [forward])


@program
def inference():
    model = network(fg.nn.LayerNorm(32)).eval()
    forward = fg.jit(model)

    def step(_):
        with fg.inference_mode():
            return forward(fg.randn(16, 12))

    return Run(step, [model], [forward])


def begun(name: str) -> Run:
    fg.manual_seed(1)
    return PROGRAMS[name]()


def state_of(run: Run) -> dict[str, Any]:
    return {
        "kept": [part.state_dict() for part in run.kept],
        "random": [fg.get_rng_state(), *(generator.get_state() for generator in run.generators)],
    }


def resumed(name: str, state: dict[str, Any]) -> Run:
    run = begun(name)
    for part, kept in zip(run.kept, state["kept"], strict=True):
        part.load_state_dict(kept)
    fg.set_rng_state(state["random"][0])
    for generator, kept in zip(run.generators, state["random"][1:], strict=True):
        generator.set_state(kept)
    return run


def goes_on(run: Run, start: int, before_step: Callable[[int], None] = lambda number: None) -> list[bytes]:
    """The bits of what each step gives, and of all that is kept in the end."""
    given = []
    for number in range(start, STEPS):
        before_step(number)
        given.append(run.step(number).detach().numpy().tobytes())
    arrays = [t for part in run.kept for t in tensors_in(part.state_dict())]
    return [*given, *(np.asarray(t.detach().numpy()).tobytes() for t in arrays)]


def tensors_in(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [t for value in state.values() for t in tensors_in(value)]
    if isinstance(state, (list, tuple)):
        return [t for value in state for t in tensors_in(value)]
    return [state] if isinstance(state, fg.Tensor) else []


def trained(name: str, folder: Path) -> tuple[Run, list[bytes]]:
    """A run from the beginning to the end, which leaves its states on the way in a folder."""
    run = begun(name)

    def leave(number: int) -> None:
        if number in STOPS:
            fg.save(state_of(run), folder / f"{name}_{number}")

    return run, goes_on(run, 0, leave)


def main(folder: Path, stop: int) -> None:
    fg.use_deterministic_algorithms(True)
    found = {}
    for name in PROGRAMS:
        found[name] = goes_on(resumed(name, fg.load(folder / f"{name}_{stop}")), stop)
    np.savez(
        folder / f"resumed_{stop}", **{n: np.frombuffer(b"".join(f), np.uint8) for n, f in found.items()}
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
