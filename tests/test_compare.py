"""`fusegrad.compare`: what it finds, what it refuses, what it leaves behind. No times are asserted."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.compare import measure, terminal
from fusegrad.compiler.compare.compare import difference_of
from fusegrad.compiler.compare.peers import BUILDERS
from fusegrad.tracer.export.files import ExportError


def loss(x: Any, w: Any, scale: float = 2.0) -> Any:
    return (fg.tanh(x @ w) * scale).sum()


def loss_torch(x: Any, w: Any, scale: float = 2.0) -> Any:
    return (torch.tanh(x @ w) * scale).sum()


@pytest.fixture
def arguments() -> tuple[fg.Tensor, fg.Tensor]:
    fg.manual_seed(0)
    return fg.randn(4, 3), fg.randn(3, 2, requires_grad=True)


def compare(function: Any, *args: Any, **options: Any) -> Any:
    return fg.compare(function, *args, repeat=2, show=False, **options)


def test_eager_and_compiled_agree_and_are_counted(arguments: Any) -> None:
    found = compare(fg.jit(loss), *arguments)
    assert [c.name for c in found.columns] == ["eager", "compiled"]
    assert found.agree
    compiled = found["compiled"]
    assert compiled.facts["ran_compiled"]
    assert compiled.facts["forward_kernels"] >= 1
    assert compiled.facts["products"] == 2  # x @ w, and the gradient of w
    assert found["eager"].memory_bytes > 0
    assert compiled.memory_bytes > 0
    assert all(c.gradients.samples == 2 for c in found.columns)


def test_nothing_of_the_users_changes(arguments: Any) -> None:
    x, w = arguments
    jitted = fg.jit(loss)
    before, state = w.array.copy(), fg.get_rng_state().numpy().copy()
    w.grad = fg.ones(3, 2)
    gradient = w.grad
    compare(jitted, x, w)
    assert w.grad is gradient
    assert np.array_equal(gradient.numpy(), np.ones((3, 2)))
    assert np.array_equal(w.array, before)
    assert np.array_equal(fg.get_rng_state().numpy(), state)
    assert jitted.stats.calls == 0


def test_what_the_function_writes_is_put_back() -> None:
    counter = fg.zeros(3)

    def count(counter: Any) -> Any:
        counter += 1
        return counter.sum()

    compare(count, counter)
    assert counter.tolist() == [0.0, 0.0, 0.0]


def test_modules_and_methods_have_their_parameters_differentiated() -> None:
    model = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.Tanh(), fg.nn.Linear(4, 1))
    x = fg.randn(5, 3)
    for function in (model, fg.jit(model), model.forward):
        found = compare(function, x)
        assert found.agree
        assert found["compiled"].gradients is not None


def test_results_that_are_no_scalar_and_containers_of_results() -> None:
    x = fg.randn(3, 3, requires_grad=True)
    found = compare(lambda x: {"a": x.sin(), "b": (x * 2, 1)}, x)
    assert found.agree
    assert found["compiled"].gradients is not None


def test_without_gradients_only_forward_is_timed() -> None:
    found = compare(lambda x: x.exp() + 1, fg.randn(10))
    assert found["compiled"].gradients is None
    assert "forward only" in str(found)
    assert "value and gradients" not in str(found)


def test_a_function_that_runs_eagerly_is_said_to() -> None:
    def open_ended(x: Any) -> Any:
        print(end="")
        return (x * x).sum()

    found = compare(open_ended, fg.randn(3, requires_grad=True))
    if not found["compiled"].facts["ran_compiled"]:
        assert "compiled ran eagerly" in str(found)


# Peers.


def test_torch_gets_a_column(arguments: Any) -> None:
    torch.ones(1)  # or the test is skipped
    found = compare(loss, *arguments, peers={"torch": loss_torch}, scale=3.0)
    assert found["torch"].difference.agrees
    assert found["torch"].gradients is not None


def test_jax_gets_a_column(arguments: Any) -> None:
    jnp = pytest.importorskip("jax.numpy")

    def loss_jax(x: Any, w: Any, scale: float = 2.0) -> Any:
        return (jnp.tanh(x @ w) * scale).sum()

    found = compare(loss, *arguments, peers={"jax": loss_jax})
    assert found["jax"].difference.agrees
    double = [a.detach().double() for a in arguments]
    found = compare(loss, double[0], double[1].requires_grad_(), peers={"jax": loss_jax})
    assert found["jax"].difference.relative < 1e-12


def test_a_peer_that_computes_something_else_is_said_to(arguments: Any) -> None:
    torch.ones(1)  # or the test is skipped
    found = compare(loss, *arguments, peers={"torch": lambda x, w: loss_torch(x, w) + 1})
    assert not found.agree
    assert found["compiled"].difference.agrees
    assert "DIFFERS" in str(found)


def test_a_peer_that_is_not_installed_is_left_out(arguments: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("fusegrad.compiler.compare.peers.installed", lambda package: False)
    found = compare(loss, *arguments, peers={"torch": loss_torch})
    assert [c.name for c in found.columns] == ["eager", "compiled"]
    assert "torch is left out" in str(found)


def test_at_least_one_sample_is_taken(arguments: Any) -> None:
    with pytest.raises(ValueError, match="repeat must be at least 1, got 0"):
        fg.compare(loss, *arguments, repeat=0)


def test_unknown_peers_and_hidden_tensors_are_refused(arguments: Any) -> None:
    with pytest.raises(ValueError, match="no peer is called 'tensorflow'"):
        compare(loss, *arguments, peers={"tensorflow": loss_torch})
    model = fg.nn.Linear(3, 1)
    with pytest.raises(ValueError, match="pass them as arguments"):
        compare(model, arguments[0], peers={"torch": loss_torch})
    assert set(BUILDERS) == {"torch", "torch.compile", "jax"}


# What is written.


def test_plot_and_json(arguments: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = compare(loss, *arguments, plot=tmp_path / "times.png")
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    found.save_json(tmp_path / "times.json")
    data = json.loads((tmp_path / "times.json").read_text())
    assert data["columns"]["compiled"]["forward_kernels"] >= 1
    assert data["agree"] is True
    assert sorted(os.listdir(tmp_path)) == ["times.json", "times.png"]


@pytest.mark.parametrize("path", ["/no/such/folder/x.png", "x.docx"])
def test_a_bad_plot_is_refused_before_the_function_runs(path: str) -> None:
    def untouched() -> None:
        raise AssertionError("the function ran")

    with pytest.raises(ExportError, match=os.path.basename(path)):
        fg.compare(untouched, plot=path)


def test_a_plot_without_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(terminal, "installed", lambda package: False)
    with pytest.raises(ExportError, match=r"fusegrad\[plot\]"):
        fg.compare(loss, plot=tmp_path / "x.png")


def test_the_table_is_the_same_without_rich(arguments: Any, monkeypatch: Any) -> None:
    table = compare(loss, *arguments)._table()
    rich, plain = io.StringIO(), io.StringIO()
    terminal.print_table(*table, file=rich)
    monkeypatch.setattr(terminal, "installed", lambda package: False)
    terminal.print_table(*table, file=plain)
    for cell in (cell.strip() for row in table[2] for cell in row):
        assert cell in rich.getvalue()
        assert cell in plain.getvalue()


def test_progress_is_silent_where_nobody_watches() -> None:
    quiet = io.StringIO()
    with terminal.progress("counting", 2, quiet) as step:
        step()
    assert quiet.getvalue() == ""


@pytest.mark.parametrize("missing", [(), ("rich",), ("rich", "tqdm")])
def test_progress_on_a_terminal(missing: tuple[str, ...], monkeypatch: Any) -> None:
    monkeypatch.setattr(terminal, "installed", lambda package: package not in missing and package != "tqdm")

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    with terminal.progress("counting", 2, screen) as step:
        step()
        step()
    assert ("counting" in screen.getvalue()) is (not missing)


# The parts.


def test_every_contender_is_called_and_counted() -> None:
    calls = {"a": 0, "b": 0}

    def call(name: str) -> Any:
        def run() -> None:
            calls[name] += 1

        return run

    steps: list[int] = []
    found = measure.interleaved({n: call(n) for n in calls}, repeat=3, step=lambda: steps.append(1))
    assert len(steps) == 6
    for name, timing in found.items():
        assert timing.samples == 3
        assert calls[name] >= 3 * timing.loops


def test_differences() -> None:
    one = np.array([1.0, np.nan, np.inf, -4.0])
    assert difference_of(([one], []), ([one.copy()], [])).agrees
    assert not difference_of(([one], []), ([np.array([1.0, 0.0, np.inf, -4.0])], [])).agrees
    assert not difference_of(([one], []), ([one[:3]], [])).agrees
    assert not difference_of(([one], [one]), ([one], [])).agrees
    assert not difference_of(([np.array([1, 2])], []), ([np.array([1, 3])], [])).agrees
    apart = difference_of(([np.array([2.0, -8.0])], []), ([np.array([2.0, -7.0])], []))
    assert (apart.absolute, apart.relative) == (1.0, 0.125)
