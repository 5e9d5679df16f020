"""NumPy's arrays in an observed run: what NumPy makes of constants is a constant, and is followed as one.

    mask = np.triu(np.ones((4, 4)), k=1)    as long as the run has it, and writes nothing there
    torch.from_numpy(mask)                  a constant of the graph; NumPy's array is given away

What a function of the table below gives follows from what it gets, and it changes nothing. Of an array from
outside nobody would hear that it is written: so replays call the function again (`known.py`). Any other use
of an array opens the run.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.tracer.observe import purity, symbols
from fusegrad.tracer.observe.arrays import foreign, known, of_tensors
from fusegrad.tracer.observe.arrays.foreign import any_of_tensors
from fusegrad.tracer.observe.lookup import MISSING, flat_contents
from fusegrad.tracer.observe.numbers import computed_of
from fusegrad.tracer.observe.symbols import Symbol
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer

# NumPy's functions of their arguments alone, besides its ufuncs, and how many of these come by position: one
# more might be `out`.
_FUNCTIONS = """
    array 2 asarray 2 asfortranarray 1 ascontiguousarray 1 copy 1 ones 2 zeros 2 full 3 eye 4 identity 2
    tri 4 arange 4 linspace 5 logspace 5
    ones_like 2 zeros_like 2 full_like 3 diag 2 triu 2 tril 2 reshape 2 ravel 2 transpose 2 swapaxes 3
    moveaxis 3 squeeze 2 expand_dims 2 concatenate 2 stack 2 hstack 1 vstack 1 tile 2 repeat 3 flip 2 roll 3
    outer 2 dot 2 where 3 clip 3 round 2 sum 2 prod 2 mean 2 min 2 max 2 cumsum 2 any 2 all 2 argmax 2
    argmin 2 argsort 2 sort 2 meshgrid 4 std 2 var 2 median 2 average 1 diff 3 cumprod 2 nan_to_num 1 interp 3
    atleast_1d 1 atleast_2d 1 column_stack 1 split 3 array_split 3 broadcast_to 2 pad 3 einsum 9 tensordot 3
    kron 2 take 3 searchsorted 2 flatnonzero 1 nonzero 1 unique 1 allclose 4 isclose 4 array_equal 2 trace 1
    percentile 3 quantile 3 nanmean 2 nansum 2 nanmax 2 nanmin 2 ptp 2 cov 2 corrcoef 2 cross 2 histogram 2
    bincount 2 digitize 2 partition 2 argpartition 2 argwhere 1 count_nonzero 2 unravel_index 2 isin 2
    ravel_multi_index 2 setdiff1d 2 union1d 2 intersect1d 2 lexsort 1 gradient 1 convolve 2 correlate 2
    vander 2 polyfit 3 polyval 2 rot90 2 fliplr 1 flipud 1 delete 2 insert 3 append 2 hsplit 2 vsplit 2
    select 3 amax 2 amin 2 trapezoid 2 real 1 imag 1 angle 1
"""
_METHODS = """
    astype 1 reshape 4 ravel 1 flatten 1 transpose 4 swapaxes 2 squeeze 1 repeat 2 copy 1 sum 1 prod 1 mean 1
    min 1 max 1 cumsum 1 any 1 all 1 argmax 1 argmin 1 argsort 1 round 1 clip 2 item 1 tolist 0
    std 1 var 1 cumprod 1 dot 1 take 2 diagonal 3 trace 1 nonzero 0
"""
_ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes", "T"})
_GETTERS = {name: operator.attrgetter(name) for name in (*_ATTRIBUTES, "real", "imag")}
_KEYWORDS = frozenset(
    "a N M k dtype shape fill_value object order ndmin start stop step num endpoint base retstep axis axes "
    "keepdims decimals indexing copy reps repeats shift ddof mode constant_values weights q bins range "
    "minlength side kind return_index return_inverse return_counts nan posinf neginf offset axis1 axis2 "
    "equal_nan rtol atol right rowvar".split()
)
_OPERATORS = frozenset(
    getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor neg pos invert lt le gt ge eq ne "
    "getitem".split()
)
# So many rows of an array in the memory of a tensor are followed one by one.
FEW = 64
# Functions of Python that ask an array for what is in it. How it prints depends on more than that.
_ASKING = frozenset({len, bool, int, float, abs, round})


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


def problem_with(observer: Observer, array: np.ndarray, values: bool) -> str | None:
    """Why an array is not fit for whoever gets it; None where it is a constant, or goes into a tensor.

    values: whether only its values count, and not how it is written out.
    """
    if values and observer.arrays.give(array):
        return None
    if values and observer.arrays.bringing is not None and known.symbol_of(observer, array) is not None:
        return None
    observer.numbers.look(array)
    return "a NumPy array, in a way that is not followed"


def computed(
    observer: Observer,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    site: Site,
) -> Any:
    """What a function gives that depends on its arguments alone, which are constants, stand for symbols, or
    lie in the memory of tensors; MISSING, with nothing done, where they do not, or where NumPy warns. Raises
    what the function raises.
    """
    given = [*args, *kwargs.values()]
    if any_of_tensors(observer, given):
        return foreign.call(observer, function, args, kwargs, site)
    if not all(_follows(observer, value) for value in given):
        return MISSING
    varies = known.any_symbol(observer, given)
    try:
        with np.errstate(all="raise"):
            result = function(*args, **kwargs)
    except FloatingPointError:
        return MISSING  # it says so itself, in the way that is set
    except Exception as error:
        if varies:
            observer.open("gets an error by a NumPy array", site)
            raise
        _guard(observer, given, site)
        observer.explain(error)
        raise
    made = result if type(result) in (list, tuple) else (result,)
    if not varies and not all(known.is_numbers(value) or is_plain(value) for value in made):
        return MISSING
    _guard(observer, given, site)
    if varies:
        return _varying(
            observer, known.applied(observer, function, args, kwargs, type(result)), result, given
        )
    for array in made:
        if type(array) is np.ndarray:
            observer.arrays.add(array)
    return observer.adopt(result) if made is result else result


def _varying(observer: Observer, symbol: Symbol, result: Any, operands: Sequence[Any]) -> Any:
    """The result of a function of arrays that vary, which stands for `symbol`."""
    if known.is_numbers(result):
        return observer.arrays.follow(result, symbol)
    if type(result) in (list, tuple) and result and all(map(known.is_numbers, result)):
        for place, part in enumerate(result):
            observer.arrays.follow(part, symbols.computed(operator.getitem, (symbol, place), np.ndarray))
    elif is_plain(result):
        return known.number(observer, symbol, result)
    else:
        _ask_contents(observer, operands)
    return observer.adopt(result)


def _ask_contents(observer: Observer, operands: Sequence[Any]) -> None:
    for array, symbol in known.symbols_in(observer, operands):
        known.ask_contents(observer, symbol, array)


def _follows(observer: Observer, value: Any) -> bool:
    """Whether a replay comes by a value, once its reads are guarded: by the same, or by that of the symbol
    for which it stands.
    """
    if is_plain(value):
        return True
    if type(value) is np.ndarray:
        return value in observer.arrays or known.symbol_of(observer, value) is not None
    if type(value) in (list, tuple):
        is_known = type(value) is tuple or observer.is_known(value)
        return is_known and all(_follows(observer, item) for item in flat_contents(value))
    return isinstance(value, type) and purity.is_static(value)


def _guard(observer: Observer, values: Sequence[Any], site: Site) -> None:
    for value in values:
        if known.symbol_of(observer, value) is None:
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
    if of_tensors.answers(observer, array, name):
        return getattr(array, name)
    is_owned = of_tensors.owner_of(observer, array) is not None and (
        name in ("T", "real", "imag") or name in _OF_METHODS
    )
    if not is_owned and not (_follows(observer, array) and (name in _ATTRIBUTES or name in _OF_METHODS)):
        observer.numbers.look(array)
        observer.open(f"looks up `{name}` of a NumPy array", site)
        return getattr(array, name)
    if name in ("T", "real", "imag"):
        return computed(observer, _GETTERS[name], (array,), {}, site)
    return getattr(array, name) if name in _OF_METHODS else known.ask_kind(observer, _GETTERS[name], array)


def method(observer: Observer, function: Any, site: Site) -> Callable[..., Any] | None:
    """A method of an array that is about to be called, observed; None for one that is not known."""
    array, name = function.__self__, function.__name__
    if not isinstance(array, (np.ndarray, np.generic)):
        return None
    if name == "item" and of_tensors.answers(observer, array, name):
        return functools.partial(of_tensors.number, observer, array)
    is_array = type(array) is np.ndarray or of_tensors.owner_of(observer, array) is not None
    if not is_array or not _is_known(observer, array) or name not in _OF_METHODS:
        return None
    return functools.partial(_call_method, observer, function, site)


def _is_known(observer: Observer, array: Any) -> bool:
    """Whether a replay comes by an array, or has a tensor in whose memory it lies."""
    return _follows(observer, array) or of_tensors.owner_of(observer, array) is not None


def _call_method(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    found = MISSING
    array, name = function.__self__, function.__name__
    if _is_known(observer, array):
        unbound = getattr(type(array), name)
        found = _called(observer, unbound, 1 + _OF_METHODS[name], (array, *args), kwargs, site)
    if found is not MISSING:
        return found
    observer.open(f"calls `{function.__name__}` of a NumPy array", site)
    return function(*args, **kwargs)


def operate(observer: Observer, function: Callable[..., Any], operands: Sequence[Any], site: Site) -> Any:
    """An operator on arrays that are followed, and numbers; MISSING for anything else."""
    if function is operator.getitem and (found := of_tensors.item(observer, *operands)) is not MISSING:
        return found
    if function not in _OPERATORS or not any(map(functools.partial(_is_followed, observer), operands)):
        return MISSING
    return computed(observer, function, operands, {}, site)


def _is_followed(observer: Observer, value: Any) -> bool:
    """Whether a value is an array, or one of NumPy's numbers that is followed."""
    return type(value) is np.ndarray or (isinstance(value, np.number) and observer.numbers.has(value))


def plain(observer: Observer, values: tuple[Any, ...], site: Site) -> tuple[Any, ...]:
    """Operands of an op on tensors, which takes NumPy's numbers as Python's."""
    if not observer.numbers.any_followed:
        return values
    return tuple([_plain(observer, value, site) for value in values])


def _plain(observer: Observer, value: Any, site: Site) -> Any:
    if not (isinstance(value, np.number) and observer.numbers.has(value)):
        return value
    number = of_tensors.number(observer, value)
    return computed(observer, np.generic.item, (value,), {}, site) if number is MISSING else number


def as_tensors(observer: Observer, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands of an operator of a tensor, with the tensors in place of arrays in whose memory they lie."""
    if not observer.numbers.any_followed:
        return values
    owners = [of_tensors.owner_of(observer, x) if type(x) is np.ndarray else None for x in values]
    return tuple([x if o is None else o for x, o in zip(values, owners, strict=True)])


def asked(observer: Observer, function: Callable[[Any], Any], value: Any, site: Site) -> Any:
    """What a function of Python gives for an array: its length, its truth; MISSING for anything else."""
    number = of_tensors.number(observer, value) if function in (int, float, bool) else MISSING
    if number is not MISSING:
        found = computed_of(observer, function, (number,))
        if found is MISSING:
            observer.numbers.look(number)
        return function(number) if found is MISSING else found
    if function not in _ASKING or not _is_followed(observer, value):
        return MISSING
    if function is len and value.ndim and of_tensors.owner_of(observer, value) is not None:
        return len(value)
    if function is len and value.ndim and _follows(observer, value):
        return known.ask_kind(observer, len, value)
    return computed(observer, function, (value,), {}, site)


def rows(observer: Observer, value: Any, site: Site) -> Any:
    """What iterating over an array gives, as a list; MISSING for anything else, and arrays of unknown
    origin.
    """
    is_short = type(value) is np.ndarray and value.ndim and len(value) <= FEW
    if is_short and of_tensors.owner_of(observer, value) is not None:
        return observer.adopt([of_tensors.item(observer, value, row) for row in range(len(value))])
    if type(value) is not np.ndarray or not value.ndim or not _follows(observer, value):
        return MISSING
    if value.ndim == 1:
        _ask_contents(observer, (value,))
        return observer.adopt([*value])
    known.ask_kind(observer, len, value)
    return observer.adopt(
        [computed(observer, operator.getitem, (value, row), {}, site) for row in range(len(value))]
    )
