"""Objects of users' classes that a run makes, and gives or leaves: a replay makes them again."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from planted import finds

import fusegrad as fg
from fusegrad.eager.core import pytree


class Made:
    def __init__(self, x: Any, number: Any = 0) -> None:
        self.x, self.number = x, number


class Output(collections.OrderedDict):  # type: ignore[type-arg]
    """As libraries' models give them: what is set is an attribute and an item."""

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __getitem__(self, key: Any) -> Any:
        return [*self.values()][key] if isinstance(key, int) else super().__getitem__(key)


class Items(dict):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise RuntimeError("it is asked by its class's own methods")


class Holder:
    made: Any = None

    def __init__(self) -> None:
        self.count, self.log = 0, []  # type: ignore[var-annotated]


def in_each_round(h: Any, x: Any) -> Any:
    for i in range(20):
        h.made = Made(x * i, i)
    return x


def handed_on(h: Any, x: Any) -> Any:
    made = Made(x)
    for i in range(20):
        made = Made(made.x + 1, i)
    h.made = made
    return made.x


def changed_after(h: Any, x: Any) -> Any:
    h.made = Made(x)
    h.made.x = h.made.x * 2
    h.made.number += 4
    kept = h.made
    kept.more = Made([x, {"inner": Made(None)}], "text")
    del kept.number
    return kept.x


def appended(h: Any, x: Any) -> Any:
    h.log.append(Made(x))
    return x + 1


def given(h: Any, x: Any) -> Any:
    return [Made(x), Made(Made(x + 1), "text")], {"a": Made(None)}


def with_views(h: Any, x: Any) -> Any:
    h.made = Made(x[1:])
    h.made.y, h.made.z = x, x * 2
    h.made.row = h.made.z[0]
    return h.made.z.sum()


def with_a_count(h: Any, x: Any) -> Any:
    h.count += 1
    h.made = Made(x, h.count)
    return x * 2


def with_a_number(h: Any, x: Any) -> Any:
    h.made = Made(x.sum().item(), 5)
    return x * 2


def read_first(h: Any, x: Any) -> Any:
    found = x if h.made is None else h.made.x * 2
    h.made = Made(x)
    return found


def one_of_two(h: Any, x: Any) -> Any:
    h.made = Made(x) if x.sum() > 3 else Made(x * 2, "small")
    return x


def derived(h: Any, x: Any) -> Any:
    h.made = Made(x * 2)
    return h.made.x.sum()


def left_and_given(h: Any, x: Any) -> Any:
    h.made = Made(x * 2)
    return h.made


def left_twice(h: Any, x: Any) -> Any:
    h.made = h.other = Made(x * 2)
    return x


def met_again(h: Any, x: Any) -> Any:
    inner, rows = Made(x * 2), [x + 1]
    around = Made(inner, rows)
    h.made = Made([inner, around, rows], {"inner": inner, "none": []})
    around = Made({"lines": (lines := [x])})
    return [lines, around, around, Made([around.x, []])]


def with_itself(h: Any, x: Any) -> Any:
    h.made = Made(x * 2)
    h.made.own = [h.made]
    return x


def an_output(h: Any, x: Any) -> Any:
    found = Output()
    found.loss, found.logits, found.rest = x.sum(), x * 2, None
    found.again = found.logits
    return found, found[0] + 1


def a_dict(h: Any, x: Any) -> Any:
    h.made = Items(a=x * 2, b=[x + 1])
    h.made.more = Items()
    return Items({1: Made(x), "x": Output(x=x * 3)})


def a_dict_by_object(h: Any, x: Any) -> Any:
    return Items({Made: x * 2}), x


def a_distribution(h: Any, x: Any) -> Any:
    h.made = fg.distributions.Categorical(logits=x)
    return h.made.log_prob(fg.tensor(1))


BODIES: list[Callable[[Any, Any], Any]] = [
    in_each_round, handed_on, changed_after, appended, given, with_views, with_a_count, with_a_number,
    read_first, one_of_two, derived, left_and_given, left_twice, met_again, with_itself,
    an_output, a_dict, a_dict_by_object, a_distribution,
]  # fmt: skip
REFUSED = {a_dict_by_object, with_views, read_first, left_and_given, left_twice, with_itself}


def shown(value: Any, met: dict[int, int] | None = None) -> Any:
    """All that there is to see of a value, with what is the same object in two places of it."""
    met = {} if met is None else met
    if isinstance(value, fg.Tensor):
        return value.tolist(), value.requires_grad, value._version, value.stride()
    is_object = isinstance(value, (Made, Holder, fg.distributions.Distribution))
    if is_object or isinstance(value, (dict, list)):
        if id(value) in met:
            return "again", met[id(value)]
        met[id(value)] = len(met)
    if isinstance(value, (Output, Items)):
        items = [[str(key), shown(item, met)] for key, item in dict.items(value)]
        return type(value).__name__, items, shown(vars(value), met)
    if isinstance(value, dict):
        return {key: shown(item, met) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item, met) for item in value]
    return (type(value).__name__, shown(vars(value), met)) if is_object else value


def answers(body: Callable[[Any, Any], Any], wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What calls give and leave, also when that is written, and which of it are one object; the function."""
    holder = Holder()
    function = wrap(lambda x: body(holder, x))
    found: list[Any] = []
    left: list[Any] = []
    for number in range(6):
        x = fg.full((3,), number % 3 + 0.5, requires_grad=body is derived)
        result = function(x)
        found.append([shown(result), shown(holder), result is holder.made])
        left.append(holder.made)
        found.append([one is other for one, other in itertools.combinations(left, 2)])
        if body is with_views:
            holder.made.z[0] = 7
            holder.made.x.add_(1)
            found.append([shown(holder), shown(x)])
        if body is derived:
            result.backward()
            found.append(shown(x.grad))
    return found, function


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_they_are_what_eager_makes(body: Callable[[Any, Any], Any]) -> None:
    found, function = answers(body, fg.jit)
    assert found == answers(body, lambda f: f)[0]
    if body not in REFUSED:
        assert function.stats.compiled_calls >= 2 and "cannot be replayed" not in str(function.explain())


def test_verified_replays_compare_them() -> None:
    holder = Holder()
    function = fg.jit(lambda x: (changed_after(holder, x), Made(x)), verify=1)
    for _ in range(3):
        assert function(fg.ones(3))[1].x.tolist() == [1, 1, 1]


def test_attributes_that_are_left_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pytree.attributes_of
    monkeypatch.setattr(pytree, "attributes_of", lambda value: dict([*whole(value).items()][:1]))
    assert finds(test_they_are_what_eager_makes, changed_after)


def test_items_that_are_left_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytree, "within", lambda value: ({}, pytree.attributes_of(value)))
    assert finds(test_they_are_what_eager_makes, an_output) and finds(test_they_are_what_eager_makes, a_dict)


def test_what_is_made_twice_in_place_of_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytree, "_find_shared", lambda *given: None)
    assert finds(test_they_are_what_eager_makes, met_again)
