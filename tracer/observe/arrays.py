"""NumPy's arrays in an observed run: what NumPy makes of constants is a constant, and is followed as one.

    mask = np.triu(np.ones((4, 4)), k=1)    as long as the run has it, and writes nothing there
    torch.from_numpy(mask)                  a constant of the graph; NumPy's array is given away

What a function of the table below gives follows from what it gets, and it changes nothing. Any other use of
an array opens the run, as do arrays from outside: nobody would hear that they are written.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.shared import owner
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING, flat_contents
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer

# NumPy's functions of their arguments alone, besides its ufuncs, and how many of these come by position: one
# more might be `out`.
_FUNCTIONS = """
    array 2 asarray 2 ones 2 zeros 2 full 3 eye 4 identity 2 tri 4 arange 4 linspace 5 logspace 5
    ones_like 2 zeros_like 2 full_like 3 diag 2 triu 2 tril 2 reshape 2 ravel 2 transpose 2 swapaxes 3
    moveaxis 3 squeeze 2 expand_dims 2 concatenate 2 stack 2 hstack 1 vstack 1 tile 2 repeat 3 flip 2 roll 3
    outer 2 dot 2 where 3 clip 3 round 2 sum 2 prod 2 mean 2 min 2 max 2 cumsum 2 any 2 all 2 argmax 2
    argmin 2 argsort 2 sort 2 meshgrid 4
"""
_METHODS = """
    astype 1 reshape 4 ravel 1 flatten 1 transpose 4 swapaxes 2 squeeze 1 repeat 2 copy 1 sum 1 prod 1 mean 1
    min 1 max 1 cumsum 1 any 1 all 1 argmax 1 argmin 1 argsort 1 round 1 clip 2 item 1 tolist 0
"""
_ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes", "T"})
_KEYWORDS = frozenset(
    "a N M k dtype shape fill_value object order ndmin start stop step num endpoint base retstep axis axes "
    "keepdims decimals indexing copy reps repeats shift".split()
)
_OPERATORS = frozenset(
    getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor neg pos invert lt le gt ge eq ne "
    "getitem".split()
)


def _counts(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


_POSITIONAL: dict[Any, int] = {getattr(np, name): n for name, n in _counts(_FUNCTIONS).items()}
_POSITIONAL |= {function: function.nin for function in vars(np).values() if type(function) is np.ufunc}
_OF_METHODS = _counts(_METHODS)
_KINDS_OF_FUNCTIONS = frozenset({BuiltinFunctionType, FunctionType, *map(type, _POSITIONAL)})


def is_of_numpy(function: Any) -> bool:
    """Whether a function is one of NumPy's of its arguments alone."""
    return type(function) in _KINDS_OF_FUNCTIONS and function in _POSITIONAL


class Arrays:
    """The constant arrays of one run, by id; they are kept, so that ids stay their own."""

    def __init__(self) -> None:
        self._constant: dict[int, np.ndarray] = {}

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._constant

    def add(self, array: np.ndarray) -> None:
        self._constant[id(array)] = array

    def give(self, array: np.ndarray) -> bool:
        """Someone else gets an array, and may write into its memory; whether it was a constant until now."""
        known = array in self
        if known:
            memory = owner(array)
            self._constant = {i: a for i, a in self._constant.items() if owner(a) is not memory}
        return known

    def clear(self) -> None:
        self._constant.clear()


def problem_with(observer: Observer, array: np.ndarray, values: bool) -> str | None:
    """Why an array is not fit for whoever gets it; None where it is a constant. values: whether only its
    values count, and not how it is written out.
    """
    if values and observer.arrays.give(array):
        return None
    observer.numbers.look(array)
    return "a NumPy array, whose contents cannot be guarded"


def computed(
    observer: Observer,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    site: Site,
) -> Any:
    """What a function gives that depends on its arguments alone, which are constants; MISSING, with nothing
    done, where they are not, or where NumPy warns. Raises what the function raises.
    """
    given = [*args, *kwargs.values()]
    if not all(_is_constant(observer, value) for value in given):
        return MISSING
    try:
        with np.errstate(all="raise"):
            result = function(*args, **kwargs)
    except FloatingPointError:
        return MISSING  # it says so itself, in the way that is set
    except Exception as error:
        _guard(observer, given, site)
        observer.explain(error)
        raise
    made = result if type(result) in (list, tuple) else (result,)
    if not all(_is_numbers(value) or is_plain(value) for value in made):
        return MISSING
    _guard(observer, given, site)
    for array in made:
        if type(array) is np.ndarray:
            observer.arrays.add(array)
    return observer.adopt(result) if made is result else result


def _is_numbers(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype.kind in "biufc"


def _is_constant(observer: Observer, value: Any) -> bool:
    """Whether a value is the same in each replay, once its reads are guarded."""
    if is_plain(value):
        return True
    if type(value) is np.ndarray:
        return value in observer.arrays
    if type(value) in (list, tuple):
        known = type(value) is tuple or observer.is_known(value)
        return known and all(_is_constant(observer, item) for item in flat_contents(value))
    return isinstance(value, type) and purity.is_static(value)


def _guard(observer: Observer, values: Sequence[Any], site: Site) -> None:
    for value in values:
        observer.numbers.look(value)
        if type(value) in (list, tuple):
            observer.read_contents(value, site)
            _guard(observer, value, site)


def call(
    observer: Observer, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], site: Site
) -> Any:
    """A call of one of NumPy's functions: of constants, or `asarray` of a tensor; MISSING for another."""
    if function is np.asarray and len(args) == 1 and not kwargs and observer.is_tensor(args[0]):
        return observer.numbers.take(args[0].__array__)
    return _called(observer, function, _POSITIONAL[function], args, kwargs, site)


def _called(
    observer: Observer, function: Any, most: int, args: Sequence[Any], kwargs: Mapping[str, Any], site: Site
) -> Any:
    if len(args) > most or not kwargs.keys() <= _KEYWORDS:
        return MISSING
    return computed(observer, function, args, kwargs, site)


def load(observer: Observer, array: np.ndarray, name: str, site: Site) -> Any:
    """An attribute or a method of an array."""
    if array not in observer.arrays or not (name in _ATTRIBUTES or name in _OF_METHODS):
        observer.numbers.look(array)
        observer.open("looks into a NumPy array, whose contents cannot be guarded", site)
        return getattr(array, name)
    if name in _ATTRIBUTES:
        return computed(observer, operator.attrgetter(name), (array,), {}, site)
    return getattr(array, name)


def method(observer: Observer, function: Any, site: Site) -> Callable[..., Any] | None:
    """A method of an array that is about to be called, observed; None for one that is not known."""
    array, name = function.__self__, function.__name__
    if type(array) is not np.ndarray or array not in observer.arrays or name not in _OF_METHODS:
        return None
    return functools.partial(_call_method, observer, function, site)


def _call_method(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    found = MISSING
    if function.__self__ in observer.arrays:
        found = _called(observer, function, _OF_METHODS[function.__name__], args, kwargs, site)
    if found is not MISSING:
        return found
    observer.open(f"calls `{function.__name__}` of a NumPy array", site)
    return function(*args, **kwargs)


def on_constants(
    observer: Observer, function: Callable[..., Any], operands: Sequence[Any], site: Site
) -> Any:
    """An operator on arrays that are constants, and numbers; MISSING for anything else."""
    if function not in _OPERATORS or not any(type(x) is np.ndarray for x in operands):
        return MISSING
    return computed(observer, function, operands, {}, site)
