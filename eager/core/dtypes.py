"""Data types and PyTorch's rules for mixing them.

A `DType` wraps a NumPy dtype under PyTorch's name and prints as PyTorch prints it
(`torch.float32`), so that a program's output does not change with its import line.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import tell

# Categories in PyTorch's promotion order: a tensor of a higher category wins whatever its rank. V is the
# letter that NumPy has for bfloat16, which it does not count among its own floats.
CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


class DType:
    """One element type: its PyTorch name, its NumPy dtype and its short name in the IR."""

    __slots__ = ("category", "name", "numpy", "short")

    def __init__(self, name: str, short: str) -> None:
        self.name = name
        self.short = short
        self.numpy = np.dtype(name)
        self.category = CATEGORY[self.numpy.kind]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    @property
    def scalar(self) -> str:
        """PyTorch's word for it in errors, and in the names of its old types: Float, Long, ..."""
        return _SCALARS[self.name]

    @property
    def is_floating_point(self) -> bool:
        return self.category == 2

    @property
    def is_complex(self) -> bool:
        return self.category == 3

    @property
    def is_signed(self) -> bool:
        return self.numpy.kind in "ifcV"

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    def limits(self) -> Any:
        """What `finfo` says of it."""
        return np.finfo(self.numpy)


class HalfType(DType):
    """A float of two bytes, whose ops compute in float32: the first that is used does what that needs."""

    __slots__ = ("_loaded",)
    is_used = False  # whether there may be arrays of such a type

    def __init__(self, name: str, short: str, category: int) -> None:
        self.name, self.short, self.category = name, short, category
        self._loaded: np.dtype | None = None

    @property
    def numpy(self) -> np.dtype:  # type: ignore[override]
        if self._loaded is None:
            self._loaded = self._load()
            FROM_NUMPY[self._loaded] = self
            if not HalfType.is_used:
                HalfType.is_used = True
                for prepare in BEFORE_HALVES:
                    prepare()
        return self._loaded

    def _load(self) -> np.dtype:
        return np.dtype(self.name)

    def limits(self) -> Any:
        """What `finfo` says of it."""
        return np.finfo(self.numpy)

    @property
    def itemsize(self) -> int:
        return 2


class _BFloat16(HalfType):
    """bfloat16, which NumPy has from the library ml_dtypes: that is loaded when somebody first needs it."""

    __slots__ = ()

    def _load(self) -> np.dtype:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)

    def limits(self) -> Any:
        import ml_dtypes

        return ml_dtypes.finfo(self.numpy)


class _FromNumpy(dict[Any, DType]):
    """Dtypes by NumPy's; half types are there when they are first asked for."""

    def __missing__(self, dtype: Any) -> DType:
        for half in (float16, bfloat16):
            if str(dtype) == half.name:
                return FROM_NUMPY[half.numpy]
        raise KeyError(dtype)

    def __contains__(self, dtype: Any) -> bool:
        return self.get(dtype) is not None

    def get(self, dtype: Any, default: Any = None) -> Any:
        """The dtype, or `default` where NumPy's is none of ours."""
        try:
            return self[dtype]
        except KeyError:
            return default


# What has to be done before there are arrays of a half type.
BEFORE_HALVES: list[Callable[[], None]] = []


def is_half(dtype: np.dtype) -> bool:
    """Whether an array of this dtype is one of float16 or bfloat16."""
    return dtype.char == "e" or dtype.kind == "V"


bool_ = DType("bool", "bool")
uint8 = DType("uint8", "u8")
int8 = DType("int8", "i8")
int16 = DType("int16", "i16")
int32 = DType("int32", "i32")
int64 = DType("int64", "i64")
uint16 = DType("uint16", "u16")
uint32 = DType("uint32", "u32")
uint64 = DType("uint64", "u64")
float16 = HalfType("float16", "f16", CATEGORY["f"])
float32 = DType("float32", "f32")
float64 = DType("float64", "f64")
bfloat16 = _BFloat16("bfloat16", "bf16", CATEGORY["V"])
complex64 = DType("complex64", "c64")
complex128 = DType("complex128", "c128")

_SCALARS = {"uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}
_SCALARS |= {"float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16"}
_SCALARS |= {"complex64": "ComplexFloat", "complex128": "ComplexDouble", "bool": "Bool"}
_SCALARS |= {f"uint{bits}": f"UInt{bits}" for bits in (16, 32, 64)}

ALL = (
    *(bool_, uint8, int8, int16, int32, int64, float16, float32, float64, complex64, complex128),
    *(uint16, uint32, uint64),
)
FROM_NUMPY: dict[Any, DType] = _FromNumpy({d.numpy: d for d in ALL if d is not float16})
FROM_SHORT: dict[str, DType] = {d.short: d for d in (*ALL, bfloat16)}
# What Python numbers are; a compiler adds what stands for some.
PYTHON_TYPES: dict[type, DType] = {bool: bool_, int: int64, float: float32, complex: complex64}
# Real numbers, each with how it becomes a float, or what stands for one; a tracer adds what stands for some.
FLOATS: dict[type, Callable[[Any], Any]] = {float: lambda number: number, int: float}

# What a float becomes as an integer, in eager and in kernels: it is cut to a whole number of this dtype, the
# smallest one where it is NaN or does not fit; what is narrower keeps the low bits. It is what C's casts give
# in PyTorch on x86, where the language leaves it open and LLVM calls it poison.
CUT_IN = {uint8: int64, int8: int32, int16: int32, int32: int32, int64: int64}
CUT_IN |= {uint16: int64, uint32: int64, uint64: int64}

_default = float32
_times_set = 0


def default_float() -> DType:
    """The dtype of tensors made from Python floats (`set_default_dtype` changes it)."""
    return _default


def times_default_set() -> int:
    """How often `set_default_dtype` was called: whoever works beside the program asks before and after."""
    return _times_set


def set_default_dtype(d: DType) -> None:
    """Set the dtype that Python floats become; as `torch.set_default_dtype`.

    Raises TypeError when `d` is not a floating-point dtype.
    """
    global _default, _times_set
    tell("changes the default dtype")
    if not as_dtype(d).is_floating_point:
        raise TypeError(f"set_default_dtype: only floating-point dtypes are supported, got {d!r}")
    _default = as_dtype(d)
    _times_set += 1


def as_dtype(value: Any) -> DType:
    """The `DType` for a `DType`, a NumPy dtype (or its name) or a Python number type, which NumPy's is too.

    `dtype=float` asks for float64, as in PyTorch; what a number becomes beside tensors says `number_dtype`.
    """
    if isinstance(value, DType):
        return value
    try:
        return FROM_NUMPY[np.dtype(value)]
    except (KeyError, TypeError):
        raise TypeError(
            f"{value!r} is not a dtype that fusegrad has; use one of {', '.join(d.name for d in ALL)}"
        ) from None


def plain_number(value: Any) -> Any:
    """A number of NumPy's, or of a user's class, as the Python number that it is; the rest as it is."""
    if type(value) in PYTHON_TYPES:
        return value
    if isinstance(value, np.generic):
        return value.item()
    for kind in (int, float, complex):
        if isinstance(value, kind):
            return getattr(kind, f"__{kind.__name__}__")(value)  # the user's class may say something else
    return value


def number_dtype(value: Any) -> DType:
    """What a number becomes: with a fraction, the default float. Raises TypeError for what is no number."""
    kind = type(plain_number(value))
    if kind not in PYTHON_TYPES:
        raise TypeError(f"expected a Tensor or a number, got {kind.__name__}")
    dtype = PYTHON_TYPES[kind]
    dtype = _default if dtype is float32 else dtype
    return complex128 if dtype is complex64 and _default is float64 else dtype


# What PyTorch calls the element types in messages.
_IN_C = {"uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t"}
_IN_C |= {"uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "c10::Half"}
_IN_C |= {"float32": "float", "float64": "double", "bfloat16": "c10::BFloat16"}


def overflow(dtype: np.dtype, value: Any = None) -> Exception:
    """The error for a number that `dtype` cannot hold."""
    shown = "" if value is None else f" ({value!r})"
    name = _IN_C.get(dtype.name, dtype.name)
    return failure(RuntimeError, f"value cannot be converted to type {name} without overflow{shown}")


def holds(dtype: np.dtype, low: Any, high: Any) -> bool:
    """Whether all real numbers from `low` to `high` may become elements of `dtype`, by PyTorch's rule.

    A fraction is cut off. Whole numbers below 0 wrap around where their size fits an unsigned dtype.
    Infinities and NaN are for floats.
    """
    if dtype.kind in "bc":
        return True
    if dtype.kind in "fV":
        most = _limits(FROM_NUMPY[dtype]).max
        return not (most < abs(low) < math.inf or most < abs(high) < math.inf)
    limits = np.iinfo(dtype)
    least = -int(limits.max) if dtype.kind == "u" and isinstance(low, (int, np.integer)) else int(limits.min)
    return bool(least <= low and high <= int(limits.max))


def opmath(dtype: np.dtype) -> np.dtype:
    """What an op computes in: for half precision, single."""
    return float32.numpy if is_half(dtype) else dtype


def in_digits_of(half: np.dtype, number: Any) -> float:
    """A number as a half type holds it."""
    with np.errstate(over="ignore"):
        return float(np.asarray(number).astype(half))


_FITS = 1e18  # below, float32 and float64 take every number


def held(value: Any, dtype: np.dtype) -> Any:
    """`value`, a Python number that is to become an element of `dtype`.

    Raises OverflowError for an integer that no dtype has, RuntimeError for what this one cannot hold.
    """
    kind = value.__class__  # of what stands for a number, that number's
    if kind in FLOATS and dtype.char in "fd" and -_FITS < value < _FITS:
        return value
    if kind is int and not -(2**63) <= value < 2**64:
        raise failure(OverflowError, f"int too big to convert: {value}")
    if dtype.kind != "c" and kind is not bool and (kind is complex or not holds(dtype, value, value)):
        raise overflow(dtype, value)
    return value


def stands_for_float(value: Any) -> bool:
    """Whether a value is what a tracer has in place of a float."""
    return isinstance(value, float) and type(value) is not float and type(value) in FLOATS


def as_float(value: Any) -> Any:
    """A real number as a float, or as what stands for one."""
    return FLOATS.get(type(value), float)(value)


def as_kind(value: Any, dtype: np.dtype) -> Any:
    """A Python number that NumPy and the kernels take next to `dtype` without changing it.

    Raises RuntimeError for one that `dtype` cannot hold.
    """
    if dtype.char in "fd" and type(value) in FLOATS and -_FITS < value < _FITS:
        return as_float(value)
    if value is None or (held(value, dtype) is value and dtype.kind == "c"):
        return value
    if dtype.kind in "fV":
        return as_float(value)
    if dtype.kind == "b":
        return bool(value)
    return int(value) % 2 ** (8 * dtype.itemsize) if dtype.kind == "u" else int(value)


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy of an array in another dtype; floats that fit no integer become what `CUT_IN` says."""
    if "V" in (dtype.kind, array.dtype.kind) and dtype != array.dtype:
        # To and from bfloat16 everything goes by float32, whose upper half it is.
        real = array.real if array.dtype.kind == "c" and dtype.kind == "V" else array
        single = real.astype(np.float32)
        return single.astype(dtype) if dtype.kind == "V" else converted(single, dtype)
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real  # without NumPy's warning
    if dtype.kind not in "iu" or array.dtype.kind not in "fc":
        return array.astype(dtype)
    wide = CUT_IN[FROM_NUMPY[dtype]].numpy
    whole = array.astype(wide)
    if not CUT_BY_NUMPY:
        limits = np.iinfo(wide)
        whole = np.where(np.abs(array.real) < -float(limits.min), whole, limits.min)
    if dtype == np.uint64:  # what int64 has not
        large = (array.real >= 2.0**63) & (array.real < 2.0**64)
        return np.where(large, np.where(large, array.real, 0).astype(dtype), whole.astype(dtype))
    return whole.astype(dtype, copy=False)


def _cut_by_numpy() -> bool:
    """Whether NumPy's own casts give on this machine what `CUT_IN` says."""
    with np.errstate(invalid="ignore"):
        # As many as a vector has, and some that are left.
        beyond = [np.array([np.nan, np.inf, -np.inf, 1e30, -1e30] * 7, f.numpy) for f in (float32, float64)]
        return all((x.astype(w) == np.iinfo(w).min).all() for x in beyond for w in (np.int32, np.int64))


CUT_BY_NUMPY = _cut_by_numpy()


def result_type(operands: Iterable[Any]) -> np.dtype:
    """The NumPy dtype that PyTorch's promotion gives for `operands`.

    Operands are anything with `.dtype` (NumPy) and `.ndim`, or Python numbers. Tensors with
    dimensions come before 0-d tensors, these before Python numbers; a later class only counts
    when its category (bool < integer < float < complex) is higher. Source: `torch.result_type`.
    """
    by_class: list[np.dtype | None] = [None, None, None]
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype is None or isinstance(operand, np.generic):
            place, dtype = 2, number_dtype(operand).numpy
        else:
            place = 0 if operand.ndim else 1
        known = by_class[place]
        by_class[place] = dtype if known is None else promote(known, dtype)
    result = None
    for dtype in by_class:
        if dtype is None:
            continue
        if result is None:
            result = dtype
        elif CATEGORY[dtype.kind] > CATEGORY[result.kind]:
            # A complex 0-d tensor or number makes float tensors complex at their own precision.
            as_complex = dtype.kind == "c" and CATEGORY[result.kind] == 2
            result = promote(result, np.dtype(np.complex64)) if as_complex else dtype
    assert result is not None
    return result


def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """The smallest dtype that PyTorch mixes `a` and `b` into (floats beat integers of any width)."""
    if a is b:
        return a
    if _unmixed(a, b) or _unmixed(b, a):
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.name} and {b.name}; convert one with .to(dtype)"
        )
    if CATEGORY[a.kind] != CATEGORY[b.kind]:
        low, high = (a, b) if CATEGORY[a.kind] < CATEGORY[b.kind] else (b, a)
        if high.kind == "c" and low.kind == "f":
            return np.result_type(low, high)
        return high
    if "V" in (a.kind, b.kind) and a != b:
        wider = b if a.kind == "V" else a
        return float32.numpy if wider.itemsize == 2 else wider
    return np.result_type(a, b)


def _unmixed(a: np.dtype, b: np.dtype) -> bool:
    """Whether `a` is an unsigned dtype that mixes with no integers, and `b` is no float."""
    return a.kind == "u" and a.itemsize > 1 and b.kind not in "fV" and a != b


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that both mix into. Source: `torch.promote_types`."""
    return FROM_NUMPY[promote(as_dtype(type1).numpy, as_dtype(type2).numpy)]


def can_cast(from_: DType, to: DType) -> bool:
    """Whether values keep their kind: no fraction, imaginary part or number beside 0 and 1 is lost.

    Source: `torch.can_cast`.
    """
    source, target = as_dtype(from_).category, as_dtype(to).category
    return source <= target


class finfo:
    """The limits of a floating-point dtype (of complex numbers: of their parts). Source: `torch.finfo`.

    Raises TypeError for other dtypes.

    >>> import fusegrad as fg
    >>> fg.finfo(fg.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: DType | None = None) -> None:
        kind = _default if type is None else as_dtype(type)
        if kind.category < 2:
            raise TypeError(f"finfo() takes a floating-point dtype, got {kind!r}; iinfo() is for integers")
        limits = kind.limits()
        self.bits: int = limits.bits
        self.dtype: str = limits.dtype.name
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(f"1e-{int(limits.nmant * math.log10(2))}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


_limits = functools.cache(finfo)  # to be looked at, and not to be given away


class iinfo:
    """The limits of an integer dtype. Source: `torch.iinfo`. Raises TypeError for other dtypes.

    >>> import fusegrad as fg
    >>> fg.iinfo(fg.int8).max
    127
    """

    def __init__(self, type: DType) -> None:
        kind = as_dtype(type)
        if kind.numpy.kind not in "ui":
            raise TypeError(f"iinfo() takes an integer dtype, got {kind!r}; finfo() is for floating point")
        limits = np.iinfo(kind.numpy)
        self.bits: int = limits.bits
        self.dtype = kind.name
        self.max, self.min = int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
