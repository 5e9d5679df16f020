"""What is put into a node natively: from outside, what a node that Python makes holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fastpath.native_node import Linking, count_writes, intact
from fusegrad.compiler.paths.autograd_node import NOTHING_FREED, NOTHING_PRESERVED, CompiledNode
from fusegrad.eager.autograd.views import ask_before_write
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor


def new_node() -> CompiledNode:
    node = CompiledNode.__new__(CompiledNode)
    node.inputs, node.filled, node.adding = (), True, None
    node.freed, node.preserved = NOTHING_FREED, NOTHING_PRESERVED
    return node


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    """A leaf, a tensor that was made of it, and one off the graph."""
    leaf = fg.tensor([1.0, 2.0], requires_grad=True)
    return leaf, leaf * 2, wrap(np.zeros(2))


def test_what_a_node_gets() -> None:
    leaf, made, result = tensors()
    number = wrap(np.ones(2))
    made.version[0] = 12345  # an int of its own, not one of the small ones
    adding, fifth = object(), 1 << 20
    node, other = new_node(), new_node()
    for wanted, ends in (node, (0,)), (other, (0, 1)):
        linking = Linking([0, 1, 2], [0, 2], [0, 2, 3], [(3, fifth)], adding, ends)
        assert linking.link(wanted, leaf, number, made, result) is True
    assert node.leaves == (leaf, number, made) and node.types == (leaf, made)
    assert node.edges == ((0, leaf, 0), (1, made.grad_fn, made.output_index))
    assert [counter is x.version for counter, x in zip(node.counters, (leaf, made, result), strict=True)]
    assert node.numbers == [0, 12345, 0]
    assert node.adding is adding and other.adding is None  # `made` is no leaf
    assert result.grad_fn is other and result.output_index is fifth and result.requires_grad


def test_a_tensor_without_a_counter_is_told() -> None:
    leaf, _, result = tensors()
    with fg.inference_mode():
        untracked = fg.tensor([1.0])
    linking = Linking([0], [0], [0, 1], [(2, 0)])
    assert linking.link(new_node(), leaf, untracked, result) is False
    assert result.grad_fn is None


def test_whether_anything_happened_to_a_node() -> None:
    leaf, made, result = tensors()
    link = Linking([0, 1], [0, 1], [0, 1], [(2, 0)]).link

    def after(change: Callable[[CompiledNode], object]) -> bool:
        node = new_node()
        link(node, leaf, made, result)
        assert intact(True)(node) and not intact(False)(node)
        change(node)
        return intact(True)(node)

    def released(node: CompiledNode) -> None:
        node.inputs = None

    def partly_freed(node: CompiledNode) -> None:
        node.freed = frozenset([1])

    def preserving(node: CompiledNode) -> None:
        node.preserved = {1: np.zeros(1)}

    def forgotten(node: CompiledNode) -> None:
        del node.counters

    assert after(lambda node: None)
    assert not after(lambda node: made.detach().add_(1))
    assert not any(map(after, (released, partly_freed, preserving, forgotten)))


@pytest.mark.parametrize("before", [0, 255, 256, 1 << 40])
def test_writes_are_counted(before: int) -> None:
    x, y = wrap(np.zeros(1)), wrap(np.zeros(1))
    x.version[0] = before
    assert count_writes()(None, x, y, y)
    assert (x.version, y.version) == ([before + 1, 0], [2, 0])
    spot = (test_writes_are_counted.__code__, 0)
    assert count_writes()(spot, x, y)
    assert (x.version, y.version) == ([before + 2, (before + 2, spot)], [3, (3, spot)])


def test_writes_that_others_have_to_be_told_of_are_left_to_python() -> None:
    plain, base, read = (wrap(np.zeros(2)) for _ in range(3))
    view = base[0]
    with fg.inference_mode():
        untracked = fg.tensor([1.0])
    ask_before_write(read.version, new_node())
    spot = (test_writes_are_counted.__code__, 0)
    for other in (view, read, untracked):
        assert count_writes()(spot, plain, other) is False
    assert plain.version == [0, 0] and view.version[0] == read.version[0] == 0
    assert count_writes()(None, plain, view, read) is True


def test_nothing_is_held_of_nodes_that_are_gone() -> None:
    leaf, made, result = tensors()
    adding = object()
    link = Linking([0, 1], [0, 1], [0, 1, 2], [(2, 0)], adding, [0]).link
    link(new_node(), leaf, made, result)
    things = (None, True, adding, leaf, made, made.grad_fn, leaf.version, result.version)
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(100):
        link(new_node(), leaf, made, result)
        count_writes()(None, leaf, made)
        count_writes()((0, 0), leaf)
    after = [sys.getrefcount(thing) for thing in things]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 5


def test_a_shortcut_links_as_the_long_way() -> None:
    """Arguments that are no tensors, a tensor from outside, and a result that is not differentiable."""
    outside = fg.tensor([0.5, 0.25], requires_grad=True)

    @fg.jit
    def function(x: Any, factor: float, y: Any) -> Any:
        z = fg.tanh(x * factor) * outside + y
        return z, z > 0, fg.exp(z)

    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = fg.tensor([3.0, 4.0], requires_grad=True) * 2
    for _ in range(6):
        function(x, 2.0, y)
    assert function._answer is not None
    short = function(x, 2.0, y)
    function._answer = None
    long = function(x, 2.0, y)
    nodes: list[Any] = [short[0].grad_fn, long[0].grad_fn]
    assert nodes[0] is not nodes[1] and type(nodes[0]) is type(nodes[1]) is CompiledNode
    for name in ("leaves", "types", "edges"):
        mine, other = (tuple(getattr(node, name)) for node in nodes)
        assert mine == other, name
    assert len(nodes[0].counters) == len(nodes[1].counters) and nodes[0].numbers == nodes[1].numbers
    for ours, theirs in zip(short, long, strict=True):
        assert ours.requires_grad == theirs.requires_grad and ours.output_index == theirs.output_index
