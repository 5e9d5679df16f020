"""Ops of meta tensors: what they give has the shape, dtype and strides that it would have on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import View, layout_of
from fusegrad.eager.core.memory_order import as_first, asked_for, memory_format, preserve_format, strides_of
from fusegrad.eager.core.op import NO_PARAMS, Op, Params, TensorType, answer_meta, evaluate, explaining, wrap
from fusegrad.eager.core.places.device import CPU, META, device, made_on, on_cpu
from fusegrad.eager.core.places.meta import MetaArray, meta_array
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


def answer(op: Op, args: tuple[Any, ...], params: Params) -> Any:
    """What an op gives on the meta device, in a row of one; None where it is not concerned.

    One meta tensor among the operands is enough, as functions that are made of ops bring masks and indices.
    """
    making = state.making
    for a in args:  # spelled out: all ops come by here while anything waits
        if isinstance(a, Tensor):
            if type(a.array) is MetaArray:
                break
            making = None
    else:
        if (params.get("place") or making) is not META:
            return None
    if state.interpreter is not None:
        state.interpreter.effect("uses tensors of the meta device")
    if "place" in params:
        params = {key: value for key, value in params.items() if key != "place"}
    return (
        evaluate(op, args, params, explaining(op, args, params, lambda *_, **__: value_of(op, args, params))),
    )


def value_of(op: Op, args: Sequence[Any], params: Params) -> Any:
    """The meta array, or a row of them, that an op gives."""
    arrays = [a.array for a in args if isinstance(a, Tensor)]
    if op.view and (not isinstance(op, View) or op.layout(layout_of(plain(arrays[0])), **params) is not None):
        return MetaArray(op.evaluate((wrap(plain(arrays[0])), *args[1:]), params))
    types = [TensorType(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else a for a in args]
    with made_on(CPU):  # what rules make on the way
        inferred = op.infer(types, params)
    found = (inferred,) if isinstance(inferred, TensorType) else inferred
    orders = op.orders([t.shape for t in found], args, params)
    made = tuple(
        meta_array(t.shape, t.dtype, None if order is None else strides_of(t.shape, order, t.dtype.itemsize))
        for t, order in zip(found, orders, strict=True)
    )
    return made[0] if isinstance(inferred, TensorType) else made


def meta_like(input: Tensor, dtype: np.dtype | None = None) -> MetaArray:
    """A meta array that lies in memory as a tensor does that is made like `input`."""
    array, dtype = input.array, dtype or input.array.dtype
    order = as_first(array.shape, [array])
    strides = None if order is None else strides_of(array.shape, order, dtype.itemsize)
    return meta_array(array.shape, dtype, strides)


def like(input: Tensor, place: Any, form: memory_format | None = None) -> Params:
    """The params of a tensor that is made like `input`: in which order it lies, and where.

    place: what was given as the device. form: the order that was asked for, if not that of `input`.
    """
    on_cpu(place)
    shape = input.array.shape
    kept = form is None or form is preserve_format
    order = as_first(shape, [input.array]) if kept else asked_for(form, shape)
    params = NO_PARAMS if order is None else {"order": order}
    return {**params, "place": META} if place is None and input.is_meta else params


def moved(input: Tensor, place: device, cast: Op, dtype: Any) -> Tensor:
    """A tensor on another device, in a dtype, by the op that converts. Raises NotImplementedError for meta
    tensors, since there is nothing to be copied.
    """
    if place is not META:
        raise failure(NotImplementedError, "Cannot copy out of meta tensor; no data!")
    made: Tensor = evaluate(cast, (input,), {"dtype": dtype}, meta_like(input, dtype.numpy))
    return made


answer_meta(answer)
