"""`torch.overrides` for functions of libraries that ask their arguments: by one program for both."""

from __future__ import annotations

import subprocess
import sys

import pytest
from oracle import torch
from planted import finds

import fusegrad.torch.supplied.overrides as ours
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.overrides import protocol

PROGRAM = """
import itertools
from {module} import handle_torch_function, has_torch_function, has_torch_function_unary
from {module} import has_torch_function_variadic, is_tensor_like
import torch

class First:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.__name__, func.__name__, [t.__name__ for t in types], len(args), kwargs

class Second(First):
    pass

class Third:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented

def function(*args, **kwargs):
    if has_torch_function(args):
        return handle_torch_function(function, args, *args, **kwargs)
    return "itself"

values = [First(), Second(), Third(), torch.ones(2), torch.nn.Parameter(torch.ones(1)), 3, None]
for row in itertools.product(values, repeat=2):
    try:
        told = function(*row, scale=2)
    except TypeError as error:
        told = str(error)
    print(told, has_torch_function_variadic(*row))
print([(has_torch_function_unary(v), is_tensor_like(v)) for v in values])
"""


def told(command):
    program = PROGRAM.format(module="torch.overrides")
    ran = subprocess.run([*command, program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_arguments_are_asked_as_by_torch():
    assert torch is not None
    right = told([sys.executable, "-c"])
    assert "Second" in right and "no implementation found" in right
    assert told([sys.executable, "-m", "fusegrad.torch", "-c"]) == right


def subclasses_are_asked_first():
    class First:
        __torch_function__ = classmethod(lambda cls, *given: cls.__name__)

    class Second(First):
        pass

    given = (Tensor(1), First(), Second())
    assert ours.handle_torch_function(print, given, *given) == "Second"


def test_another_order_is_found(monkeypatch: pytest.MonkeyPatch):
    subclasses_are_asked_first()
    monkeypatch.setattr(ours, "_get_overloaded_args", lambda args: list(filter(protocol.answers, args)))
    assert finds(subclasses_are_asked_first)
