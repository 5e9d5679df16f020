"""What PyTorch's classes have in the states of their objects beside what ours have."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from fusegrad.eager.nn import functional
from fusegrad.eager.nn.convolution import _ConvNd
from fusegrad.eager.nn.hooks import HOOKS
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.recurrent import RNNBase
from fusegrad.eager.nn.transformer import TransformerEncoder, TransformerEncoderLayer
from fusegrad.eager.optim.schedules.cyclic import CyclicLR


def for_torch(value: Any, state: Any) -> Any:
    """The state of a module or schedule, with what PyTorch's class of the name wants of it."""
    if not isinstance(state, dict):
        return state
    if isinstance(value, Module):
        # PyTorch's handles of hooks hold these weakly, which plain dicts cannot be.
        state = {n: OrderedDict(v) if n in HOOKS and type(v) is dict else v for n, v in state.items()}
    for kind, more in _MORE:
        if isinstance(value, kind):
            return more(value) | state
    return state


def _convolution(layer: Any) -> dict[str, Any]:
    """The padding as `pad` takes it: of the last dimension first, before and behind."""
    if not isinstance(layer.padding, str):
        around = tuple(n for n in reversed(layer.padding) for _ in range(2))
    else:
        totals = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        totals = totals if layer.padding == "same" else [0] * len(totals)
        around = [n for total in reversed(totals) for n in (total // 2, total - total // 2)]  # type: ignore[assignment]
    return {"_reversed_padding_repeated_twice": around}


def _recurrent(layer: Any) -> dict[str, Any]:
    """Its weights once more, in lists."""
    held = layer._parameters
    names = [[n for n in held if n.split("_", 2)[2] == suffix] for suffix in layer._suffixes]
    flat = [name for group in names for name in group]
    weights = [held[name] for name in flat]
    return {"_all_weights": names, "_flat_weights_names": flat, "_flat_weights": weights}


def _encoder(layer: Any) -> dict[str, Any]:
    """Options of a faster way that PyTorch has for sequences of several lengths: it is not taken."""
    return {"enable_nested_tensor": False, "use_nested_tensor": False, "mask_check": True}


def _encoder_layer(layer: Any) -> dict[str, Any]:
    known = [functional.relu, functional.gelu]
    return {"activation_relu_or_gelu": 1 + known.index(layer.activation) if layer.activation in known else 0}


def _cyclic(schedule: Any) -> dict[str, Any]:
    function = schedule._own_scale()
    return {} if schedule._scale_fn_custom is not None else {"_scale_fn_ref": function}


_MORE: list[tuple[type, Callable[[Any], dict[str, Any]]]] = [
    (_ConvNd, _convolution),
    (RNNBase, _recurrent),
    (TransformerEncoder, _encoder),
    (TransformerEncoderLayer, _encoder_layer),
    (CyclicLR, _cyclic),
]
