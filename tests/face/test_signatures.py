"""Parameters of functions and classes that are written in Python, beside torch: names, order, defaults."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from oracle import torch

MODULES = """
    nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations
    nn.utils.prune optim optim.lr_scheduler optim.swa_utils
    distributions distributions.transforms distributions.kl
    utils.data utils.data.distributed utils.checkpoint autograd autograd.functional linalg fft special func
    testing sparse nested amp random masked
""".split()
# Of dtypes and devices the defaults are told in other words; these need no default of their own.
EVERYWHERE = {"self", "cls", "args", "kwargs", "device", "dtype", "layout", "out", "_stacklevel"}
ELSEWHERE = {
    "TypedStorage": "PyTorch's own ways to make one",
    "cdist compute_mode": "None is PyTorch's default by its C++ name",
    "compile": "Dynamo's own options",
    "enable_grad orig_func": "PyTorch's is for the decorator alone",
    "Hardtanh min_value": "deprecated before PyTorch 1",
    "Hardtanh max_value": "deprecated before PyTorch 1",
    "SyncBatchNorm bias": "a keyword",
    "PackedSequence batch_sizes": "what needs no batch sizes is refused",
    "ParametrizationList unsafe": "a keyword",
    "jacrev _preallocate_and_copy": "PyTorch's own",
    "custom_fwd device_type": "may be left out",
    "custom_bwd device_type": "may be left out",
    "Size iterable": "a tuple's",
}


def callables() -> Iterator[tuple[str, Any, Any]]:
    for module in ["", *MODULES]:
        theirs, ours = (importlib.import_module(f"{n}.{module}".rstrip(".")) for n in ("torch", "fusegrad"))
        for name in dir(theirs):
            one, other = getattr(theirs, name), getattr(ours, name, None)
            if not name.startswith("_") and callable(one) and callable(other):
                yield f"{module}.{name}".lstrip("."), one, other


def differences(one: Any, other: Any) -> Iterator[str]:
    """What is not as torch has it, by the parameter's name."""
    try:
        theirs, ours = inspect.signature(one).parameters, inspect.signature(other).parameters
    except (ValueError, TypeError):  # written in C++, say
        return
    kinds = {p.kind for p in ours.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    for name, parameter in theirs.items():
        if name in EVERYWHERE:
            continue
        if name not in ours:
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                yield name
            continue
        defaults = parameter.default, ours[name].default
        needed = [default is inspect.Parameter.empty for default in defaults]
        plain = all(isinstance(d, (int, float, str, tuple, type(None))) for d in defaults)
        if needed[0] != needed[1] or (plain and defaults[0] != defaults[1]):
            yield name
    placed = inspect.Parameter.POSITIONAL_OR_KEYWORD
    orders = [[n for n, p in some.items() if p.kind is placed] for some in (theirs, ours)]
    common = {*orders[0]} & {*orders[1]}
    if [n for n in orders[0] if n in common] != [n for n in orders[1] if n in common]:
        yield "order"


def test_parameters_are_torchs() -> None:
    assert torch.nn  # skips where it is not there
    found = {
        f"{name}: {what}"
        for name, one, other in callables()
        for what in differences(one, other)
        if not {name.rpartition(".")[2], f"{name.rpartition('.')[2]} {what}"} & {*ELSEWHERE}
    }
    assert not found


@pytest.mark.parametrize(
    ("ours", "found"),
    [
        (lambda x, p=1: x, []),
        (lambda x, p=1, q=1: x, []),
        (lambda x, p=2: x, ["p"]),
        (lambda x, p: x, ["p"]),
        (lambda x, q=1: x, ["p"]),
        (lambda p=1, x=None: x, ["x", "order"]),
    ],
)
def test_differences_are_found(ours: Any, found: list[str]) -> None:
    def theirs(x: Any, p: int = 1) -> Any:
        return x

    assert [*differences(theirs, ours)] == found
