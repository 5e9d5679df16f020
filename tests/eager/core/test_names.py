"""A declaration is all that makes a name: in `fusegrad`, on `Tensor`, and for other ops."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import fusegrad as fg
from fusegrad.eager.core.names import PUBLIC, attach, publish
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import form

EAGER = Path(__file__).resolve().parents[3] / "eager"


def test_what_is_declared_is_what_there_is():
    assert set(PUBLIC) <= set(fg.__all__)
    assert all(getattr(fg, name) is form(function) for name, function in PUBLIC.items())
    assert fg.arcsin is fg.asin and fg.Tensor.arcsin is fg.Tensor.asin
    assert fg.Tensor.arcsin_ is fg.Tensor.asin_
    assert not hasattr(fg.Tensor, "isnan_")


def test_a_name_is_declared_once():
    def sin(x):
        return x

    with pytest.raises(ValueError, match="'sin' is declared twice"):
        publish(sin)
    with pytest.raises(ValueError, match=r"Tensor\.sin is declared twice"):
        attach(sin)
    assert inspect.unwrap(fg.sin) is ops.sin is inspect.unwrap(fg.Tensor.sin) is not sin


def test_ops_that_are_asked_for_are_declared():
    """A wrong name in a gradient rule would show when that gradient is asked for, and not before."""
    asked = {
        (node.attr, f"{path.relative_to(EAGER)}:{node.lineno}")
        for path in EAGER.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ops"
    }
    assert len(asked) > 500
    assert not [where for name, where in asked if not hasattr(ops, name)]
