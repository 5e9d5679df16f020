"""What functions cannot take is a TypeError with the function's name, whatever and wherever it is."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops import forms

MODULES = ["", "nn.functional", "linalg", "special", "fft"]
WRONG: dict[str, Any] = {
    "None": None,
    "a string": "a",
    "bytes": b"a",
    "an object": object(),
    "a class": int,
    "a function": len,
    "a list of strings": ["a", "b"],
    "a dict": {"a": 1},
    "a set": {1},
}
# What functions take elsewhere, so that they may find fault with its value.
MISPLACED: dict[str, Any] = {"a list": [1.0], "a complex number": 1j, "a number": 3, "a tensor": fg.ones(2)}
# Any object will do; or it is a function to call, a file, a setting.
ANYTHING = """is_tensor is_storage is_complex is_floating_point typename load save manual_seed seed jit
    compile use_deterministic_algorithms compare export grad vjp jvp hessian jacobian value_and_grad cond scan
    while_loop""".split()


class Noted:
    """A module whose functions note what they are given."""

    def __init__(self, module: Any, path: str, calls: dict[str, Any]) -> None:
        self._module, self._path, self._calls = module, path, calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        path = f"{self._path}{name}"
        if inspect.ismodule(value):
            return Noted(value, f"{path}.", self._calls)
        if not inspect.isfunction(value):
            return value

        @functools.wraps(value)
        def noting(*args: Any, **kwargs: Any) -> Any:
            self._calls.setdefault(path, (args, kwargs))
            return value(*args, **kwargs)

        return noting


@functools.cache
def calls() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """For each public function that the samples call, what they give it first."""
    found: dict[str, Any] = {}
    for samples in SAMPLES.values():
        for sample in samples:
            sample.call(Noted(fg, "", found), *map(fg.tensor, sample.inputs))
    return found


def functions() -> dict[str, Any]:
    found = {}
    for path in MODULES:
        module = functools.reduce(getattr, path.split(".") if path else [], fg)
        for name in dir(module):
            value = getattr(module, name)
            if inspect.isfunction(value) and not name.startswith(("_", "set_")) and name not in ANYTHING:
                found[f"{path}.{name}".lstrip(".")] = value
    return found


def calls_with(values: dict[str, Any], path: str) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Calls with one of these things in each place."""
    args, kwargs = calls().get(path, ((), {}))
    for kind, value in values.items():
        for place in range(max(len(args), 1)):
            yield f"{kind} at {place}", (*args[:place], value, *args[place + 1 :]), kwargs
        for name in kwargs:
            yield f"{kind} as {name}", args, {**kwargs, name: value}


def failed(function: Any, args: Any, kwargs: Any) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args, **kwargs)
        except Exception as error:
            return error
    return None


def pytorchs(path: str, args: Any, kwargs: Any) -> Exception | None:
    """How PyTorch's function of that name fails."""

    def theirs(value: Any) -> Any:
        if isinstance(value, fg.Tensor):
            return torch.from_numpy(np.array(value.detach().numpy()))
        if type(value) in (list, tuple):
            return type(value)(map(theirs, value))
        return getattr(torch, str(value).removeprefix("torch.")) if isinstance(value, fg.dtype) else value

    function = functools.reduce(getattr, path.split("."), torch)
    return failed(function, theirs(args), {name: theirs(value) for name, value in kwargs.items()})


def wrong_refusals() -> list[str]:
    """Calls that are given something strange and neither take it nor raise what they should."""
    found = []
    for path, function in functions().items():
        name = path.rpartition(".")[2]
        for what, args, kwargs in calls_with(WRONG, path):
            error = failed(function, args, kwargs)
            if error is None:
                continue
            if type(error) is TypeError:
                good = any(n in str(error) for n in (name, function.__name__))
            else:
                good = isinstance(error, (ValueError, RuntimeError, IndexError)) and (
                    what.startswith(("None", "a string"))
                    or isinstance(pytorchs(path, args, kwargs), (ValueError, RuntimeError))
                )
            if not good:
                found.append(f"{path}, {what}: {type(error).__name__}: {error}")
    return found


def strange_errors() -> list[str]:
    """Calls that are given what belongs elsewhere, and raise what says nothing of it."""
    said = (TypeError, ValueError, RuntimeError, IndexError, OverflowError)
    found = []
    for path, function in functions().items():
        for what, args, kwargs in calls_with(MISPLACED, path):
            error = failed(function, args, kwargs)
            if error is not None and not isinstance(error, said):
                found.append(f"{path}, {what}: {type(error).__name__}: {error}")
    return found


def calls_of_methods() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Methods of tensors, with strange things as the first argument, and others behind."""
    for name in dir(fg.Tensor):
        if not name.startswith("_") and callable(getattr(fg.Tensor, name)):
            for value in WRONG.values():
                for behind in ((), (1,), ("a",), (0, 1), (fg.tensor([0]), fg.ones(1))):
                    yield name, (value, *behind)


def failing_within() -> set[str]:
    """Methods that strange things make fail with what is wrong inside, which no program can know of."""
    within = (AttributeError, KeyError, AssertionError, NameError)
    return {
        name
        for name, args in calls_of_methods()
        if isinstance(failed(getattr(fg.ones(3, 3), name), args, {}), within)
    }


def test_methods_never_fail_within() -> None:
    assert failing_within() == set()


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("expand_as", ("a",), r"expand_as\(\): argument 'other' \(position 1\) must be Tensor, not str"),
        ("bmm", (3,), r"bmm\(\): argument 'mat2' \(position 1\) must be Tensor, not int"),
        ("addmm_", ("a", fg.ones(1)), r"addmm_\(\): argument 'mat1' \(position 1\) must be Tensor, not str"),
    ],
)
def test_methods_count_their_arguments_without_their_own_tensor(name: str, args: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        getattr(fg.ones(2, 2), name)(*args)


def test_methods_that_refuse_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fg.Tensor, "expand_as", fg.Tensor.expand_as.__wrapped__)
    assert failing_within() == {"expand_as"}


def test_what_no_function_takes_is_a_type_error_with_its_name() -> None:
    assert len(calls()) > 400
    assert wrong_refusals() == []


def test_what_belongs_elsewhere_raises_no_error_of_the_engines_own() -> None:
    assert strange_errors() == []


def test_errors_of_users_functions_and_of_values_stay_what_they_are() -> None:
    def failing(*given: Any) -> Any:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        fg.nn.functional.triplet_margin_with_distance_loss(
            fg.ones(2, 2), fg.ones(2, 2), fg.ones(2, 2), distance_function=failing
        )
    with pytest.raises(RuntimeError, match="must match the existing size"):
        fg.index_put(fg.ones(3), (fg.tensor([0, 1]),), fg.ones(5))
    with pytest.raises(
        TypeError, match=r"softmax\(\): argument 'input' \(position 1\) must be Tensor, not str"
    ):
        fg.softmax("a", 0)
    with pytest.raises(
        TypeError, match=r"stack\(\): expected Tensor as element 1 in argument 0, but got str"
    ):
        fg.stack([fg.ones(1), "a"])


def test_functions_that_refuse_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "refusal", lambda error, function, arguments, own: error)
    plain = forms.calling(fg.softmax.__wrapped__)  # made anew, of what was changed
    assert isinstance(failed(plain, ("a", 0), {}), AttributeError)
    monkeypatch.setattr(fg, "softmax", plain)
    assert {fault.partition(",")[0] for fault in wrong_refusals()} == {"softmax"}
