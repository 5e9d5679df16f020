"""Known functions: one of ours or a builtin goes in, one that guards its operands comes out."""

from __future__ import annotations

import builtins
import copy
import functools
import inspect
import itertools
import operator
import pickle
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from fusegrad.tracer.observe import attributes, numbers, operations, purity, stores, subscripts
from fusegrad.tracer.observe.arrays import calls as arrays
from fusegrad.tracer.observe.lookup import (
    ITERATORS,
    MISSING,
    VIEWS,
    flat_contents,
    says_its_class,
    type_lookup,
)
from fusegrad.tracer.observe.observer import LOCAL, OUTER, Observer
from fusegrad.tracer.observe.python import abstract, containers, copies, identities, loggers, pickles
from fusegrad.tracer.observe.symbols import ON_NUMBERS
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.observe.world import ahead, printing, texts, unknown_calls
from fusegrad.tracer.twin.sites import Site

_NUMBERS = (bool, int, float, np.number, np.bool_)
_NAMED = (dict, OrderedDict, defaultdict)
_PLAIN_FACTORIES = (None, list, dict, set, int, float, str, bool, tuple)


def opened(observer: Observer, function: Any, reason: str, site: Site) -> Any:
    """The function itself, with the run open."""
    observer.open(reason, site)
    return function


def name_of(function: Any) -> str:
    """A callable's name for messages, without running user code."""
    name = getattr(function, "__qualname__", None) if isinstance(function, (type, FunctionType)) else None
    if name is None and isinstance(function, (BuiltinFunctionType, MethodDescriptorType, MethodType)):
        name = getattr(function, "__name__", None)
    return f"`{name}`" if name else f"a {type(function).__name__} object"


def call_pure(observer: Observer, function: Any, mode: str, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin without effects: guard what it looks at, follow its callbacks, own its result."""
    name = getattr(function, "__name__", "")
    what = f"passes to `{name}`"
    if function is round and [*kwargs] == ["ndigits"]:
        args, kwargs = (*args, kwargs["ndigits"]), {}
    if not kwargs and function in ON_NUMBERS:
        found = numbers.computed_of(observer, function, args)
        if found is MISSING and len(args) == 1:
            found = arrays.asked(observer, function, args[0], site)
        if found is not MISSING:
            return found
    positional, keywords = list(args), dict(kwargs)
    if mode == purity.OPAQUE:
        for value in positional:
            if not observer.is_known(value):
                observer.open(f"{what} an object of unknown origin", site)
            observer.read_type(value, site)
        if function in (isinstance, issubclass):
            abstract.read(observer, function, args, site)
            if function is isinstance and says_its_class(type(args[0])):
                observer.open(f"`{name}` asks a {type(args[0]).__name__} object for its class", site)
        elif function is callable and not isinstance(args[0], type):
            observer.read_class(type(args[0]), "__call__", type_lookup(type(args[0]), "__call__"), site)
        return function(*args, **kwargs)
    if function in (str, repr) and len(args) == 1 and not kwargs:
        text = attributes.text_of(observer, function, args[0], site)
        if text is not None:
            return text
    if function is len and len(args) == 1 and not kwargs:
        return operations.length(observer, args[0], site)
    if function is sorted and "key" not in kwargs and len(args) == 1:
        pairs = _named_pairs(args[0])
        if pairs:
            observer.consume(args[0] if type(args[0]) in (list, tuple) else (), site, what, deep=False)
            observer.numbers.look(*(pair[0] for pair in pairs))
            return observer.adopt(sorted(pairs, key=operator.itemgetter(0), **kwargs))
    if function is copy.deepcopy and len(args) == 1 and not kwargs:
        found = copies.deep(observer, args[0], site)
        if found is not MISSING:
            return found
    if function is itertools.repeat:
        observer.numbers.look(*args[1:], *kwargs.values())
    if function is defaultdict and args and args[0] not in _PLAIN_FACTORIES:
        observer.open("makes a defaultdict with a factory of its own", site)
    if function is reversed and len(args) == 1 and purity.is_user_sequence(args[0]):
        return operations.backwards(observer, args[0], site)
    if function is iter and len(args) == 1 and purity.is_user_iterable(args[0]):
        return operations.iterator_of(observer, args[0], site)
    if function is iter and len(args) != 1:
        observer.open("iterates over the calls of a function", site)
    callback = purity.CALLBACKS.get(function)
    advanced = [v for v in positional if type(v) in ITERATORS and not _runs_whole(function, v)]
    # What advances an iterator has done something, and what calls back may have.
    calls_back = callback is not None and (not isinstance(callback, str) or callback in keywords)
    if calls_back or advanced:
        observer.does(f"{'calls back from' if calls_back else 'advances an iterator by'} `{name}`", site)
    if callback is not None:
        mode = _follow_callback(observer, function, callback, mode, positional, keywords, site)
    iterated = purity.ITERATED.get(function, ())
    if function in (min, max) and len(args) > 1:
        iterated = ()
    for position, value in enumerate(positional):
        if position != callback:
            loops = iterated is purity.ALL or position in iterated
            positional[position] = _operand(observer, value, mode, loops, site, what)
    named = purity.HELD if function in _NAMED else mode  # `dict(loss=x)` looks at no value
    for key, value in keywords.items():
        if key != callback:
            keywords[key] = _operand(observer, value, named, False, site, what)
    try:
        if function in (float, int) and len(positional) == 1 and observer.is_tensor(positional[0]):
            return observer.numbers.take(functools.partial(function, positional[0]), is_deed=False)
        result = function(*positional, **keywords)
    except Exception as error:
        _explain(observer, error, positional)
        raise
    _check_keys(observer, type(result), result, site)
    return observer.adopt(result)


def _named_pairs(value: Any) -> list[Any]:
    """The tuples in a container, where sorting looks at nothing but their first items, which are names."""
    known = type(value) in (list, tuple) or type(value) in VIEWS
    pairs = [*value] if known else []
    names = {pair[0] for pair in pairs if type(pair) is tuple and pair and type(pair[0]) is str}
    return pairs if len(names) == len(pairs) else []


def call_of_numpy(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """NumPy's function of Python's and NumPy's numbers, as `np.sqrt(d_k)`, or a type of its numbers: as pure
    as the functions of `math`. Of constant arrays, one of those that are known.

    Of other arrays, and where it warns (which may be an error, as users have it), it is like any other
    function.
    """
    if arrays.is_of_numpy(function):
        found = arrays.call(observer, function, args, kwargs, site)
        if found is not MISSING:
            return found
    if not kwargs and args and all(isinstance(a, _NUMBERS) and is_plain(a) for a in args):
        try:
            with np.errstate(all="raise"):
                function(*args)
            return call_pure(observer, function, purity.DEEP, site, *args)
        except (FloatingPointError, TypeError, ValueError):
            pass  # the function says so itself, in the way that is set
    return opened(observer, function, f"calls {name_of(function)} of NumPy", site)(*args, **kwargs)


def _runs_whole(function: Any, iterator: Any) -> bool:
    """Whether a generator is run from its begin to its end."""
    whole = function in (tuple, list) and type(iterator) is GeneratorType
    return whole and inspect.getgeneratorstate(iterator) == inspect.GEN_CREATED


def _operand(observer: Observer, value: Any, mode: str, iterated: bool, site: Site, what: str) -> Any:
    """An argument of a pure builtin, guarded.

    iterated: the builtin loops over it; an iterator comes back with a check on every item, an object
    with an ``__iter__`` in Python as the iterator that its twin gives.
    """
    if iterated and (purity.is_user_iterable(value) or type(value) is np.ndarray):
        value = operations.iterate(observer, value, site)
    elif iterated and containers.is_looked_into(observer, value, mode == purity.PAIRS, site):
        operations.iterate(observer, value, site)
        for item in () if mode == purity.SHALLOW or isinstance(value, dict) else flat_contents(value):
            _checked(observer, site, what, mode, item)
        return value
    kind = type(value)
    if mode == purity.HELD:
        observer.consume(value, site, what, deep=False)
    elif kind in ITERATORS and iterated:
        if not observer.is_local_iterator(value):
            observer.open(f"{what} an iterator that lives outside the function", site)
        elif mode != purity.SHALLOW and kind in VIEWS:
            for item in value:
                _checked(observer, site, what, mode, item)
        elif mode != purity.SHALLOW:
            return map(functools.partial(_checked, observer, site, what, mode), value)
    elif mode in (purity.SHALLOW, purity.PAIRS):
        is_container = kind in purity.CONTAINERS or purity.is_namedtuple(value)
        observer.consume(value, site, what, deep=not is_container)
        if mode == purity.PAIRS and is_container and kind not in purity.DICTS:
            for item in flat_contents(value):
                _checked(observer, site, what, mode, item)
    else:
        observer.consume(value, site, what, tensors=mode == purity.DEEP)
    return value


def _checked(observer: Observer, site: Site, what: str, mode: str, item: Any) -> Any:
    if mode == purity.PAIRS:
        if purity.is_user_iterable(item):
            observer.open(f"{what} a {type(item).__name__} object", site)
        observer.consume(item, site, what, deep=type(item) not in purity.CONTAINERS)
    else:
        observer.consume(item, site, what, tensors=mode == purity.DEEP)
    return item


def _follow_callback(
    observer: Observer,
    function: Any,
    callback: int | str,
    mode: str,
    positional: list,
    keywords: dict[str, Any],
    site: Site,
) -> str:
    """Put the twin of a callback in its place; gives how far the builtin itself then looks at items."""
    given = keywords.get(callback) if isinstance(callback, str) else None
    if isinstance(callback, int) and callback < len(positional):
        given = positional[callback]
    if given is None:
        return purity.DEEP if function in (filter, itertools.filterfalse) else mode
    twin = observer.callee(given, site)
    if isinstance(callback, str):
        keywords[callback] = _checked_key(observer, twin, site)
        return purity.SHALLOW  # only the keys are compared
    decides = function not in (map, functools.reduce, itertools.starmap, itertools.accumulate)
    positional[callback] = _checked_key(observer, twin, site) if decides else twin
    return purity.SHALLOW if mode == purity.DEEP else mode


def _checked_key(observer: Observer, function: Callable, site: Site) -> Callable:
    """A sort key or condition of which no result runs code of its own when compared or tested."""

    def key(item: Any) -> Any:
        result = function(item)
        observer.consume(result, site, "decides by")
        return result

    return key


def _check_keys(observer: Observer, kind: Any, value: Any, site: Site) -> None:
    """Keys that have gone into a dict must not have run code of their own."""
    if kind in purity.DICTS and isinstance(value, kind) and observer.status(value) != OUTER:
        for key in kind.__iter__(value):
            if not subscripts.check_key(observer, key, site):
                return


def _explain(observer: Observer, error: Exception, operands: list) -> None:
    """An exception of the builtin itself follows from its operands, unless values of tensors went in."""
    raised_here = error.__traceback__ is not None and error.__traceback__.tb_next is None
    leaves = _flat(operands)
    if raised_here and not any(observer.is_tensor(v) or type(v) in ITERATORS for v in leaves):
        observer.explain(error)


def _flat(values: Any) -> list:
    flat: list = []
    for value in values:
        flat += _flat(flat_contents(value)) if type(value) in purity.CONTAINERS else [value]
    return flat


# ---------------------------------------------------------------------------------- builtin functions


def builtin(observer: Observer, function: Any, site: Site) -> Any:
    if function is builtins.getattr:
        return functools.partial(_call_getattr, observer, site)
    if function is builtins.hasattr:
        return functools.partial(_call_hasattr, observer, site)
    if function is builtins.setattr:
        return functools.partial(_call_setattr, observer, site)
    if function is builtins.delattr:
        return functools.partial(_call_delattr, observer, site)
    if function is builtins.id:
        return functools.partial(identities.address, observer, site)
    if function is builtins.print:
        return printing.printer(observer, site)
    if function is builtins.next:
        return functools.partial(_call_next, observer, site)
    asked = ahead.asking(observer, function, site)
    if asked is not None:
        return asked
    if function is pickle.dumps:
        return pickles.dumps(observer, site)
    if function is warnings.warn:
        return functools.partial(loggers.warn, observer, site)
    mode = purity.lookup_pure(function)
    if mode is not None:
        return functools.partial(call_pure, observer, function, mode, site)
    if type(function) is MethodDescriptorType:
        if function.__objclass__ in purity.MUTATORS or purity.is_plain_type(function.__objclass__):
            return functools.partial(_call_descriptor, observer, function, site)
    else:
        owner = function.__self__
        if (known := arrays.method(observer, function, site)) is not None:
            return known
        if isinstance(owner, type) and function == type.__subclasses__.__get__(owner):
            return functools.partial(attributes.subclasses, observer, owner, site)
        if owner is not None and not isinstance(owner, ModuleType):
            return functools.partial(_call_method, observer, function, site)
    word = purity.IMPURE_WORDS.get(function)
    module = getattr(function, "__module__", None)
    where = f" of `{module}`" if module and module != "builtins" else ""
    if word:
        return opened(observer, function, word, site)
    return unknown_calls.calling(observer, function, f"calls {name_of(function)}{where}", site)


def _call_getattr(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    if kwargs or len(args) not in (2, 3) or type(args[1]) is not str:
        observer.open("calls `getattr` with something else than a name", site)
        return getattr(*args, **kwargs)
    try:
        return attributes.load(observer, args[0], args[1], site)
    except AttributeError as error:
        if not observer.is_explained(error):
            observer.open(f"`{args[1]}` is missing for a reason that cannot be guarded", site, "read")
        if len(args) == 3:
            return args[2]
        raise


def _call_hasattr(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> bool:
    if kwargs or len(args) != 2 or type(args[1]) is not str:
        observer.open("calls `hasattr` with something else than a name", site)
        return hasattr(*args, **kwargs)
    try:
        attributes.load(observer, args[0], args[1], site)
    except AttributeError as error:
        if not observer.is_explained(error):
            observer.open(f"`{args[1]}` is missing for a reason that cannot be guarded", site, "read")
        return False
    return True


def _call_setattr(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> None:
    if kwargs or len(args) != 3 or type(args[1]) is not str:
        observer.open("calls `setattr` with something else than a name", site)
        return setattr(*args, **kwargs)
    return attributes.store(observer, args[2], args[0], args[1], site)


def _call_delattr(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> None:
    if kwargs or len(args) != 2 or type(args[1]) is not str:
        observer.open("calls `delattr` with something else than a name", site)
        return delattr(*args, **kwargs)
    return attributes.delete(observer, args[0], args[1], site)


def _call_next(observer: Observer, site: Site, /, *args: Any) -> Any:
    iterator = args[0] if args else None
    if len(args) == 1 and observer.is_outer(iterator):
        return ahead.item_of(observer, iterator, site)
    if type(iterator) not in ITERATORS or not observer.is_local_iterator(iterator):
        observer.open("advances an iterator that lives outside the function", site)
    try:
        return next(*args)
    except StopIteration as error:
        observer.explain(error)
        raise


# ---------------------------------------------------------------------------------- builtin methods


def _call_descriptor(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """``str.upper(text)``: the method of the first argument, if that is of the very class."""
    kind: Any = type(args[0]) if args else object
    kind, name = purity.container_of(kind) or kind, function.__name__
    if function.__objclass__ in kind.__mro__ and type_lookup(kind, name) is function:
        return _call_method(observer, function.__get__(args[0]), site, *args[1:], **kwargs)
    observer.open(f"calls {name_of(function)} on another type", site)
    return function(*args, **kwargs)


def _call_method(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin method of a plain value or a builtin container."""
    owner, name = function.__self__, function.__name__
    kind = purity.container_of(type(owner)) or type(owner)
    what = f"passes to `{kind.__name__}.{name}`"
    positional, keywords = list(args), dict(kwargs)
    if name in purity.ELEMENTWISE_METHODS and kind in purity.CONTAINERS:
        observer.numbers.look_into(owner)
    if kind is str:
        found = texts.made(observer, owner, name, args, kwargs)
        if found is not MISSING:
            return found
    if is_plain(owner) and kind not in (tuple, frozenset):
        positional = [_operand(observer, v, purity.TEXT, name == "join", site, what) for v in args]
        for value in kwargs.values():
            observer.consume(value, site, what, tensors=False)
    elif isinstance(owner, type) and (owner in purity.CONTAINERS or purity.is_plain_type(owner)):
        loops = name == "fromkeys"
        positional = [
            _operand(observer, v, purity.DEEP, loops and not i, site, what) for i, v in enumerate(args)
        ]
    elif kind in purity.MUTATORS or purity.is_namedtuple(owner):
        if name == "__getitem__" and len(args) == 1:
            return subscripts.item_as(observer, kind, owner, args[0], site)
        if isinstance(owner, dict) and name in ("get", "setdefault") and args and not kwargs:
            found = subscripts.read_key(observer, owner, args[0], site)
            if found is not MISSING:
                return found
        _prepare_container_method(observer, kind, owner, name, positional, keywords, site)
    elif kind in ITERATORS and observer.is_local_iterator(owner):
        pass
    else:
        words = f"calls `{name}` of a {kind.__name__}, which is not known"
        return unknown_calls.calling(observer, function, words, site)(*args, **kwargs)
    try:
        result = function(*positional, **keywords)
    except Exception as error:
        _explain(observer, error, [owner, *positional])
        raise
    _check_keys(observer, kind, result if isinstance(owner, type) else owner, site)
    if kind in purity.MUTATORS and isinstance(owner, dict) and name in ("get", "pop", "setdefault"):
        return observer.reached(result) if name == "setdefault" and observer.is_outer(owner) else result
    return observer.adopt(result)


def _grows(observer: Observer, owner: Any, name: str, given: list, site: Site) -> bool:
    """Whether a method only appends to a list from outside, or empties it, which a replay does, too."""
    if name == "clear":
        return not given and stores.grow(observer, owner, None)
    if name == "append":
        return len(given) == 1 and stores.grow(observer, owner, given)
    if name != "extend" or len(given) != 1 or type(given[0]) not in (list, tuple):
        return False
    observer.consume(given[0], site, "passes to `extend`", deep=False)
    return stores.grow(observer, owner, given[0])


def _prepare_container_method(
    observer: Observer, kind: Any, owner: Any, name: str, positional: list, keywords: dict, site: Site
) -> None:
    """Guard what a container's method reads, note what it writes."""
    what = f"passes to `{kind.__name__}.{name}`"
    status = observer.status(owner)
    if kind is not type(owner) and not containers.calls_no_other(observer, kind, owner, name, site):
        observer.open(f"calls `{name}` of a {type(owner).__name__}, which calls what its class has", site)
    if name in purity.MUTATORS.get(kind, ()):
        if status != LOCAL and not _grows(observer, owner, name, positional, site):
            # As tables are filled in: from then on it is there.
            fills = name == "setdefault" and kind is dict and is_plain(positional[:1])
            observer.open(
                f"calls `{name}` of {subscripts.outside(observer, owner)}", site, "once" if fills else ""
            )
        if name == "sort" and keywords.get("key") is not None:
            keywords["key"] = _checked_key(observer, observer.callee(keywords["key"], site), site)
        elif name == "sort":
            observer.consume(owner, site, what)
    elif isinstance(owner, dict) and name in ("get", "__contains__") and positional:
        subscripts.read_key(observer, owner, positional[0], site)
    elif kind is not type(owner):
        operations.goes_over(observer, owner, site)
        for item in flat_contents(owner) if name in purity.ELEMENTWISE_METHODS else ():
            observer.consume(item, site, what, tensors=False)
    else:
        observer.consume(owner, site, what, deep=name in purity.ELEMENTWISE_METHODS, tensors=False)
    deep = name in purity.ELEMENTWISE_METHODS
    for position, value in enumerate(positional):
        if name in ("extend", "extendleft") or name == "update" or deep:
            mode = purity.DEEP if isinstance(owner, set) or deep else purity.SHALLOW
            mode = purity.PAIRS if isinstance(owner, dict) else mode
            loops = name not in ("index", "count", "remove", "add", "discard", "__contains__", "sort")
            positional[position] = _operand(observer, value, mode, loops, site, what)
            if deep and observer.is_tensor(value) and name in ("index", "count", "remove"):
                observer.open("compares tensors by identity in a container", site)
    if isinstance(owner, dict) and name in ("pop", "setdefault", "get") and positional:
        subscripts.check_key(observer, positional[0], site)
