"""Names of torch's that may be mentioned, though fusegrad has nothing behind them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import fusegrad as fg
from fusegrad.torch.asked import refuse

# Lists of dtypes are asked whether all in them are dtypes.
DTYPES = frozenset(
    """chalf complex32 quint8 qint8 qint32 quint4x2 quint2x4 float8_e4m3fn
    float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 bits8 bits16""".split()
)
# What only tells kinds of tensors apart, and may be mentioned wherever tensors are compared.
KINDS = frozenset(
    """sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn
    per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric""".split()
)


def _limits(name: str) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(getattr(ml_dtypes, name))


# What may be asked of dtypes of eight bits without any numbers of them: libraries do when they are imported.
FACTS: dict[str, dict[str, Any]] = {
    name: {
        "category": fg.float32.category,
        "is_floating_point": True,
        "is_complex": False,
        "is_signed": True,
        "itemsize": 1,
        "limits": functools.partial(_limits, name),
    }
    for name in DTYPES
    if name.startswith("float8")
}


class Absent:
    """A name that fusegrad lacks: it can be compared with what is there, and refuses to be used.

    >>> absent = Absent("torch.bfloat16")
    >>> fg.float32 in (absent, fg.float16)
    False
    >>> absent.itemsize
    Traceback (most recent call last):
        ...
    AttributeError: fusegrad has no torch.bfloat16
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def _use(self) -> None:
        """Somebody is about to do more than mention it."""
        refuse(self._name)

    def __repr__(self) -> str:
        return self._name

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return fg.dtype if self._name.rpartition(".")[2] in DTYPES else Absent

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        facts = FACTS.get(self._name.removeprefix("torch."), {})
        if name in facts:
            return facts[name]
        self._use()
        return type(self)(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        self._use()
        return type(self)(f"{self._name}()")

    def __instancecheck__(self, _: Any) -> bool:
        return False  # nothing is of a type that is not there

    def __subclasscheck__(self, _: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return other  # in annotations

    __ror__ = __or__

    def __iter__(self) -> Iterator[Any]:
        self._use()
        return iter(())

    def __bool__(self) -> bool:
        self._use()
        return not self._name.endswith("()")  # a flag that was asked for says no

    def __getitem__(self, _: Any) -> Any:
        self._use()
        return self

    def _number(self, *_: Any) -> Any:
        self._use()
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _number
