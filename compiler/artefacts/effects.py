"""What a run did besides its result, and what a replay asks Python for, as data and back.

Tensors are told of by their place: a leaf of the arguments, or an object that has been met.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fusegrad.compiler.artefacts import numbers, owners
from fusegrad.compiler.artefacts.lines import file_of, path_of
from fusegrad.compiler.artefacts.structures import structure, structure_again
from fusegrad.compiler.artefacts.world import Data, Unsayable, World, from_plain, plain
from fusegrad.eager.core.dtypes import FROM_SHORT, DType
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import default_generator
from fusegrad.tracer.capture import carried
from fusegrad.tracer.capture.captured import Attribute, Items, Left
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe import symbols
from fusegrad.tracer.observe.arrays import into_tensors, untold
from fusegrad.tracer.observe.hosts import Draw, GradientOf, Host
from fusegrad.tracer.observe.values import hold
from fusegrad.tracer.observe.world import ahead
from fusegrad.tracer.record import steps

Values = Mapping[str, Value]


def place(where: Any, world: World) -> Data:
    """Where a tensor is at a replay. Raises Unsayable."""
    return ["leaf", where] if isinstance(where, int) else ["object", world.known(where())]


def place_again(said: Data, world: World) -> Any:
    """The place that was told of."""
    kind, number = said
    return number if kind == "leaf" else _tensor(number, world)


def _tensor(said: Data, world: World) -> weakref.ref[Tensor]:
    tensor = world.at(said)
    assert isinstance(tensor, Tensor)
    return weakref.ref(tensor)


# ---------------------------------------------------------------------------------- hosts


class Kind(NamedTuple):
    """How hosts of a kind are told of, and made again."""

    told: Callable[[Any, World], list[Data]]
    again: Callable[..., Host]


def _draw(host: Draw, world: World) -> list[Data]:
    params = {name: value for name, value in host.params.items() if name != "generator"}
    if host.params.get("generator") is not default_generator:
        raise Unsayable("draws random numbers from a generator of its own")
    said = [[n, [v.short] if isinstance(v, DType) else ["plain", plain(v)]] for n, v in params.items()]
    return [host.op.name, plain(host.args), said]


def _draw_again(world: World, values: Values, value: str, op: str, args: Data, params: Data) -> Host:
    found = {n: from_plain(said[1]) if len(said) > 1 else FROM_SHORT[said[0]] for n, said in params}
    return Draw(values[value], REGISTRY[op], from_plain(args), {**found, "generator": default_generator})


def _gradient(host: GradientOf, world: World) -> list[Data]:
    return [place(host.place, world)]


def _gradient_again(world: World, values: Values, value: str, where: Data) -> Host:
    return GradientOf(values[value], place_again(where, world))


def _numbers(host: steps.Numbers, world: World) -> list[Data]:
    if host.options:
        raise Unsayable("sets numbers of an optimizer")
    kept = [[name, world.known(tensor())] for name, tensor in host.kept.items()]
    owners = [world.known(host.optimizer()), world.known(host.group())]
    counts = [world.known(count()) for count in host.counts]
    return [*owners, host.ahead, counts, kept, sorted(host.fixed), [*map(plain, host.seen)]]


def _numbers_again(
    world: World, values: Values, name: str, optimizer: Data, group: Data, ahead: int, *rest: Data
) -> Host:
    value = values[name]
    counts, kept, fixed, seen = rest
    stepping = world.at(optimizer)
    vars(stepping)["_opt_called"] = True  # which its `step` notes for schedules
    made = steps.Numbers(stepping, world.at(group), value.dtype, ahead, {})
    made.counts = [_tensor(count, world) for count in counts]
    made.kept = {name: _tensor(tensor, world) for name, tensor in kept}
    made.fixed, made.seen, made.value = set(fixed), [*map(from_plain, seen)], value
    return made


def _outcome(host: symbols.Outcome, world: World) -> list[Data]:
    file, line = host.site
    expected = [] if host.expected is symbols.ANYTHING else [plain(host.expected)]
    return [numbers.told(host.symbol, world), expected, *file_of(file, world), line]


def _outcome_again(
    world: World, values: Values, value: str, symbol: Data, expected: Data, file: int, line: int
) -> Host:
    wanted = from_plain(*expected) if expected else symbols.ANYTHING
    return symbols.Outcome(numbers.again(symbol, values, world), wanted, (path_of(file, world), line))


def _scalar(host: symbols.Scalar, world: World) -> list[Data]:
    return [numbers.told(host.symbol, world)]


def _scalar_again(world: World, values: Values, value: str, symbol: Data) -> Host:
    return symbols.Scalar(values[value], numbers.again(symbol, values, world))


# Each kind of host there is, with how it is told of, or why it is not.
HOSTS: dict[type[Host], Kind | str] = {
    Draw: Kind(_draw, _draw_again),
    GradientOf: Kind(_gradient, _gradient_again),
    steps.Numbers: Kind(_numbers, _numbers_again),
    symbols.Scalar: Kind(_scalar, _scalar_again),
    symbols.Outcome: Kind(_outcome, _outcome_again),
    ahead.Asks: "asks Python for what an iterator gives next, or for the time",
    into_tensors.ArrayInput: "reads a NumPy array",
    untold._Absent: "asks whether an argument has an attribute of its own",
    carried.Carried: "carries a tensor in an attribute from call to call",
}
_BY_NAME = {kind.__name__: how for kind, how in HOSTS.items()}


def host(made: Host, world: World) -> Data:
    """A host as data. Raises Unsayable."""
    how = HOSTS[type(made)]
    if isinstance(how, str):
        raise Unsayable(how)
    value = "" if made.value is None else made.value.name
    return [type(made).__name__, value, *how.told(made, world)]


def host_again(said: Data, values: Values, world: World) -> Host:
    """The host that was told of."""
    name, value, *rest = said
    how = _BY_NAME[name]
    assert not isinstance(how, str)
    return how.again(world, values, value, *rest)


# ---------------------------------------------------------------------------------- what is left

# What a run may leave, and whether that is told of, or why not.
LEFT: dict[str, str] = {
    "writes": "",
    "times": "",
    "made": "",
    "gradients": "",
    "numbers": "",
    "attributes": "",
    "items": "",
    "counts": "",
    "after": "",
    "hits": "calls a function that keeps its results",
    "replaced": "gives a tensor other memory",
    "flags": "sets whether a tensor requires gradients",
}


def left(made: Left, tracked: frozenset[Value], world: World) -> Data:
    """What a run left, as data. Raises Unsayable."""
    for name, why in LEFT.items():
        if why and getattr(made, name):
            raise Unsayable(why)
    if any(final in tracked for _, final in made.writes):
        raise Unsayable("writes into a tensor from outside on the autograd graph")
    return {
        "writes": [[value.name, final.name] for value, final in made.writes],
        "times": [*made.times],
        "made": [[value.name, count] for value, count in made.made.items()],
        "gradients": [[place(where, world), value and value.name] for where, value in made.gradients],
        "numbers": [value.name for value in made.numbers],
        "attributes": [
            [owners.told(a.owner(), world), plain(a.name), structure(a.structure.key), a.count]
            for a in made.attributes
        ],
        "items": [
            [world.known(i.owner()), int(i.emptied), structure(i.structure.key), i.count] for i in made.items
        ],
        "counts": [[world.known(owner()), name, by] for owner, name, by in made.counts],
        "after": [_method(method(), world) for method in made.after],
    }


def _method(method: Any, world: World) -> Data:
    if method is None:
        raise Unsayable("calls a method of an object that is gone")
    return [world.known(method.__self__), method.__name__]


def left_again(said: Data, values: Values, world: World) -> Left:
    """What was told of."""
    return Left(
        writes=tuple((values[value], values[final]) for value, final in said["writes"]),
        times=tuple(said["times"]),
        made={values[value]: count for value, count in said["made"]},
        gradients=tuple(
            (place_again(where, world), None if value is None else values[value])
            for where, value in said["gradients"]
        ),
        numbers=tuple(values[value] for value in said["numbers"]),
        attributes=tuple(
            Attribute(hold(owners.again(owner, world)), from_plain(name), structure_again(key), count)
            for owner, name, key, count in said["attributes"]
        ),
        items=tuple(
            Items(hold(world.at(owner)), bool(emptied), structure_again(key), count)
            for owner, emptied, key, count in said["items"]
        ),
        counts=tuple((hold(world.at(owner)), name, by) for owner, name, by in said["counts"]),
        after=tuple(weakref.WeakMethod(getattr(world.at(owner), name)) for owner, name in said["after"]),
    )
