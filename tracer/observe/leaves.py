"""Known functions: one of ours or a builtin goes in, one that guards its operands comes out."""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
from collections import defaultdict
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

from fusegrad.eager.autograd.function import Function, FunctionNode
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe import arrays, attributes, numbers, operations, purity, stores
from fusegrad.tracer.observe.lookup import (
    ITERATORS,
    MISSING,
    VIEWS,
    flat_contents,
    says_its_class,
    type_lookup,
)
from fusegrad.tracer.observe.observer import LOCAL, OUTER, Observer
from fusegrad.tracer.observe.symbols import NUMBERS, ON_NUMBERS
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site
from fusegrad.tracer.twin.unfailing import joined

_NUMBERS = (bool, int, float, np.number, np.bool_)
_HANDING = (vars(Function)["apply"].__func__, Tensor.register_hook)
_HANDED_ON = (*NUMBERS, type(None))
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


def call_trusted(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """One of fusegrad's own functions: the recorder sees what it does, its operands must be guarded."""
    if purity.is_door(function, args, kwargs):
        return observer.numbers.take(functools.partial(function, **kwargs))
    if observer.numbers.any_given((*args, *kwargs.values())) and purity.carries_numbers(function, kwargs):
        owner = function.__self__ if isinstance(function, MethodType) else args[0] if args else None
        if all(observer.is_tensor(x) or type(x) in _HANDED_ON for x in (owner, *args, *kwargs.values())):
            return observer.adopt(observer.numbers.carried(function, args, kwargs))
    observer.numbers.look(*args, *kwargs.values())
    what = f"passes to {name_of(function)}"
    if isinstance(function, MethodType):
        owner = function.__self__
        engine = observer.is_known(owner) and (purity.is_trusted_object(owner) or purity.is_optimizer(owner))
        ours = engine or observer.is_tensor(owner) or _stands_for_engine(observer, owner, function)
        if not (ours or purity.is_static(owner)):
            observer.consume(owner, site, what)
    if purity.is_transform(function):
        calls_it = not purity.makes_transform(function)
        args = tuple([_passed(observer, value, calls_it, site, what) for value in args])
        for value in kwargs.values():
            observer.consume(value, site, what, passed_on=True)
    else:
        passed_on = _hands_on(function)
        for value in (*args, *kwargs.values()):
            observer.consume(value, site, what, passed_on=passed_on)
    return observer.adopt(function(*args, **kwargs))


def _hands_on(function: Any) -> bool:
    """Whether a function of ours hands its arguments on to the user's code, and does not look into them."""
    return type(function) is MethodType and function.__func__ in _HANDING


def _stands_for_engine(observer: Observer, owner: Any, method: MethodType) -> bool:
    """Whether the owner of a method of ours is a custom Function, or its `ctx`."""
    is_function = _hands_on(method) and isinstance(owner, type)
    return observer.is_known(owner) and (is_function or isinstance(owner, FunctionNode))


def _passed(observer: Observer, value: Any, calls_it: bool, site: Site, what: str) -> Any:
    """An argument of a transform. Of a function that is called it is the twin, which takes what the transform
    gives as made by this run; objects are guarded where the function uses them.
    """
    if not (calls_it and callable(value)) or observer.is_tensor(value):
        observer.consume(value, site, what, passed_on=True)
        return value
    twin = observer.callee(value, site)

    def given(*args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            observer.adopt(argument)
        return twin(*args, **kwargs)

    return given


def call_pure(observer: Observer, function: Any, mode: str, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin without effects: guard what it looks at, follow its callbacks, own its result."""
    name = getattr(function, "__name__", "")
    what = f"passes to `{name}`"
    if function is round and [*kwargs] == ["ndigits"]:
        args, kwargs = (*args, kwargs["ndigits"]), {}
    if not kwargs and function in ON_NUMBERS:
        found = numbers.computed_of(observer, function, args)
        if found is not MISSING:
            return found
    positional, keywords = list(args), dict(kwargs)
    if mode == purity.OPAQUE:
        for value in positional:
            if not observer.is_known(value):
                observer.open(f"{what} an object of unknown origin", site)
            observer.read_type(value, site)
        if function in (isinstance, issubclass):
            if not all(purity.has_plain_instance_check(kind) for kind in _flat(args[1:])):
                observer.open(f"`{name}` runs code of a metaclass", site)
            elif function is isinstance and says_its_class(type(args[0])):
                observer.open(f"`{name}` asks a {type(args[0]).__name__} object for its class", site)
        elif function is callable and not isinstance(args[0], type):
            observer.read_class(type(args[0]), "__call__", type_lookup(type(args[0]), "__call__"), site)
        return function(*args, **kwargs)
    if function is len and len(args) == 1 and not kwargs:
        return operations.length(observer, args[0], site)
    if function is itertools.repeat:
        observer.numbers.look(*args[1:], *kwargs.values())
    if function is defaultdict and args and args[0] not in _PLAIN_FACTORIES:
        observer.open("makes a defaultdict with a factory of its own", site)
    if function is reversed and len(args) == 1 and purity.is_user_sequence(args[0]):
        return operations.backwards(observer, args[0], site)
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
    for key, value in keywords.items():
        if key != callback:
            keywords[key] = _operand(observer, value, mode, False, site, what)
    try:
        if function is float and len(positional) == 1 and observer.is_tensor(positional[0]):
            return observer.numbers.take(functools.partial(float, positional[0]), is_deed=False)
        result = function(*positional, **keywords)
    except Exception as error:
        _explain(observer, error, positional)
        raise
    _check_keys(observer, result, site)
    return observer.adopt(result)


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
    if iterated and purity.is_user_iterable(value):
        value = operations.iterate(observer, value, site)
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


def _check_keys(observer: Observer, value: Any, site: Site) -> None:
    """Keys that have gone into a dict must not have run code of their own."""
    if type(value) in purity.DICTS and observer.status(value) != OUTER:
        for key in value:
            if not operations.check_key(observer, key, site):
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
    if function is builtins.next:
        return functools.partial(_call_next, observer, site)
    mode = purity.lookup_pure(function)
    if mode is not None:
        return functools.partial(call_pure, observer, function, mode, site)
    if type(function) is MethodDescriptorType:
        if function.__objclass__ in purity.MUTATORS or purity.is_plain_type(function.__objclass__):
            return functools.partial(_call_descriptor, observer, function, site)
    else:
        owner = function.__self__
        if type(owner) is np.ndarray and (known := arrays.method(observer, function, site)) is not None:
            return known
        if owner is not None and not isinstance(owner, ModuleType):
            return functools.partial(_call_method, observer, function, site)
    word = purity.IMPURE_WORDS.get(function)
    module = getattr(function, "__module__", None)
    where = f" of `{module}`" if module and module != "builtins" else ""
    return opened(observer, function, word or f"calls {name_of(function)}{where}", site)


def slot(observer: Observer, function: Any, site: Site) -> Any:
    """A slot of a builtin class, as ``super().__init__``: harmless for ``object``'s own."""
    is_object = getattr(function, "__objclass__", None) is object
    owner = getattr(function, "__self__", None)
    if is_object and function.__name__ == "__init__":
        return function
    if (
        isinstance(owner, BaseException)
        and observer.status(owner) == LOCAL
        and function.__name__ == "__init__"
    ):
        return function
    if is_object and function.__name__ == "__setattr__" and owner is None:
        return functools.partial(_call_object_setattr, observer, site)
    return opened(observer, function, f"calls the slot `{function.__name__}`", site)


def _call_object_setattr(observer: Observer, site: Site, /, owner: Any, name: str, value: Any) -> None:
    """``object.__setattr__(self, name, value)``, as frozen classes do."""
    if observer.status(owner) != LOCAL:
        observer.open(f"sets `{name}` of an object that lives outside the function", site)
    object.__setattr__(owner, name, value)


def _call_getattr(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    if kwargs or len(args) not in (2, 3) or type(args[1]) is not str:
        observer.open("calls `getattr` with something else than a name", site)
        return getattr(*args, **kwargs)
    try:
        return attributes.load(observer, args[0], args[1], site)
    except AttributeError as error:
        if not observer.is_explained(error):
            observer.open(f"`{args[1]}` is missing for a reason that cannot be guarded", site)
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
            observer.open(f"`{args[1]}` is missing for a reason that cannot be guarded", site)
        return False
    return True


def _call_setattr(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> None:
    if kwargs or len(args) != 3 or type(args[1]) is not str:
        observer.open("calls `setattr` with something else than a name", site)
        return setattr(*args, **kwargs)
    return attributes.store(observer, args[2], args[0], args[1], site)


def _call_next(observer: Observer, site: Site, /, *args: Any) -> Any:
    iterator = args[0] if args else None
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
    if args and type(args[0]) is function.__objclass__:
        return _call_method(observer, getattr(args[0], function.__name__), site, *args[1:], **kwargs)
    observer.open(f"calls {name_of(function)} on another type", site)
    return function(*args, **kwargs)


def _call_method(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """A builtin method of a plain value or a builtin container."""
    owner, name = function.__self__, function.__name__
    kind = type(owner)
    what = f"passes to `{kind.__name__}.{name}`"
    positional, keywords = list(args), dict(kwargs)
    if name in purity.ELEMENTWISE_METHODS and kind in purity.CONTAINERS:
        observer.numbers.look_into(owner)
    if kind is str and not kwargs:
        found = _text(observer, owner, name, args)
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
        _prepare_container_method(observer, owner, name, positional, keywords, site, what)
    elif kind in ITERATORS and observer.is_local_iterator(owner):
        pass
    else:
        observer.open(f"calls `{name}` of a {kind.__name__}, which is not known", site)
    try:
        result = function(*positional, **keywords)
    except Exception as error:
        _explain(observer, error, [owner, *positional])
        raise
    _check_keys(observer, result if isinstance(owner, type) else owner, site)
    if kind in purity.MUTATORS and isinstance(owner, dict) and name in ("get", "pop", "setdefault"):
        return result
    return observer.adopt(result)


def _text(observer: Observer, owner: str, name: str, args: tuple[Any, ...]) -> Any:
    """What `format` and `join` of a text give for numbers that a replay comes by anew, and texts of them."""
    if name == "format":
        return numbers.computed_of(observer, str.format, (owner, *args))
    local = name == "join" and len(args) == 1 and type(args[0]) in (list, tuple)
    if not local or observer.status(args[0]) != LOCAL or not all(type(x) is str for x in args[0]):
        return MISSING
    return numbers.computed_of(observer, joined, (owner, *args[0]))


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
    observer: Observer, owner: Any, name: str, positional: list, keywords: dict, site: Site, what: str
) -> None:
    """Guard what a container's method reads, note what it writes."""
    kind, status = type(owner), observer.status(owner)
    if name in purity.MUTATORS.get(kind, ()):
        if status != LOCAL and not _grows(observer, owner, name, positional, site):
            observer.open(f"calls `{name}` of {operations.outside(observer, owner)}", site)
        if name == "sort" and keywords.get("key") is not None:
            keywords["key"] = _checked_key(observer, observer.callee(keywords["key"], site), site)
        elif name == "sort":
            observer.consume(owner, site, what)
    elif isinstance(owner, dict) and name == "get" and positional:
        operations.read_key(observer, owner, positional[0], site)
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
        operations.check_key(observer, positional[0], site)
