"""Modes of autograd: as decorators, in threads, and inference."""

from __future__ import annotations

import contextlib
import threading

import pytest
from oracle import torch

import fusegrad as fg


@pytest.mark.parametrize("lib", [fg, torch])
def test_modes_as_decorators(lib):

    @lib.no_grad
    def bare():
        return lib.is_grad_enabled()

    @lib.set_grad_enabled(False)
    def off():
        return lib.is_grad_enabled()

    @lib.enable_grad()
    def generator():
        received = []
        try:
            received.append((yield lib.is_grad_enabled()))
            received.append((yield lib.is_grad_enabled()))
        except KeyError:
            yield ("caught", lib.is_grad_enabled())
        return received

    assert lib.is_grad_enabled()
    assert not bare() and not off()
    with lib.no_grad():
        made = generator()
        assert next(made) and not lib.is_grad_enabled()
        assert made.send("sent") and not lib.is_grad_enabled()
        with pytest.raises(StopIteration) as stop:
            made.send("more")
        assert stop.value.value == ["sent", "more"]
        made = generator()
        next(made)
        assert made.throw(KeyError()) == ("caught", True)
        made.close()
        guard = lib.set_grad_enabled(True)
        assert lib.is_grad_enabled()
        guard.__exit__(None, None, None)
        assert not lib.is_grad_enabled()
    assert lib.is_grad_enabled()


def test_modes_belong_to_threads():
    seen = []
    with fg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(fg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_mode():
    def program(lib):
        log = []
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        with lib.inference_mode():
            made = lib.ones(2)
            result = x * 2
            view = x[:1]
            made.add_(1)
            log.append((lib.is_inference_mode_enabled(), lib.is_grad_enabled()))
            with lib.inference_mode(False):
                log.append((lib.is_grad_enabled(), lib.ones(1).is_inference()))
        log += [made.is_inference(), result.is_inference(), result.requires_grad, view.is_inference()]
        log += [(x + made).tolist(), (x * made.clone()).tolist()]
        for refused in (
            lambda: made.add_(1),
            lambda: x * made,
            lambda: made.requires_grad_(),
            lambda: made._version,
            lambda: result.mul_(x),
        ):
            try:
                log.append(refused())
            except RuntimeError as error:
                log.append("nference" in str(error))

        @lib.inference_mode()
        def f(x):
            return x * 2

        log.append(f(x).is_inference())
        return log

    assert program(fg) == program(torch)


def test_a_pull_without_grad_mode_is_off_the_graph():
    for lib in (torch, fg):
        x = lib.tensor(3.0, requires_grad=True)
        output, pull = lib.func.vjp(lambda x: x**2, x)
        with lib.no_grad():
            (gradient,) = pull(lib.tensor(1.0))
        assert gradient.item() == 6 and not gradient.requires_grad and output.requires_grad


def test_detaching_in_place_does_nothing_in_inference_mode():
    def program(T):
        leaf, seen = T.ones(2, requires_grad=True), []
        made, view = leaf * 2, leaf[1:]
        with T.inference_mode():
            for tensor in (leaf, made, view, T.ones(2)):
                seen.append((tensor.detach_() is tensor, tensor.requires_grad, tensor.grad_fn is None))
        with T.no_grad():
            return seen, made.detach_().requires_grad, leaf.detach_().requires_grad

    assert program(fg) == program(torch)


# Modes, one inside the other, and which of them record gradients.
NESTED = """
inference_mode() enable_grad() | inference_mode() set_grad_enabled(True) | enable_grad() inference_mode()
inference_mode() inference_mode(False) | inference_mode() inference_mode(False) no_grad()
inference_mode() enable_grad() inference_mode(False) | no_grad() inference_mode() enable_grad() no_grad()
inference_mode() no_grad() enable_grad() | no_grad() enable_grad() | inference_mode(False) enable_grad()
"""


@pytest.mark.parametrize("names", [m for line in NESTED.strip().split("\n") for m in line.split(" | ")])
def test_modes_inside_of_others_record_as_pytorchs_do(names: str):
    def run(lib):
        w = lib.ones(2, requires_grad=True)
        seen = []
        with contextlib.ExitStack() as stack:
            for name in names.split():
                stack.enter_context(eval(name, vars(lib)))
                made = w * 2
                seen.append((made.requires_grad, made.is_inference()))
        return [*seen, (w * 2).requires_grad, lib.is_grad_enabled()]

    assert run(fg) == run(torch)
