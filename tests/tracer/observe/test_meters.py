"""Objects that count and show themselves, as the meters of training scripts: eager's texts, by replays.

`fmtstr.format(**self.__dict__)` shows what a call has set, what it has not, and what was set from outside.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
from jit_checks import sealed

import fusegrad as fg
from fusegrad.tracer.observe.python import namespaces


class Meter:
    def __init__(self, name: str, fmt: str = ":f") -> None:
        self.name, self.fmt = name, fmt
        self.val = self.avg = self.sum = 0.0
        self.count = 0

    def update(self, val: float, n: int = 1) -> None:
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self) -> str:
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "}) of {count}"
        return fmtstr.format(**self.__dict__)


class Doubled(Meter):
    @property
    def twice(self) -> float:
        return self.val * 2

    def __repr__(self) -> str:
        return "{twice} {val!r:>8} {{}}".format(twice=self.twice, **self.__dict__)

    __str__ = __repr__


def _shown(m: Any, i: int) -> None:
    print(f"[{i}]", str(m))


def _printed(m: Any, i: int) -> None:
    print("step", i, m, sep="\t")


def _joined(m: Any, i: int) -> None:
    print("\t".join([f"epoch {i}", *(str(meter) for meter in (m, m))]))


def _twice(m: Any, i: int) -> None:
    print(m, m)
    m.update(1.0)
    print(str(m))


def _passed_on(m: Any, i: int) -> None:
    print(dict(**m.__dict__)["count"] > i)


def _one_more(m: Any, i: int) -> None:
    m.extra = i
    print(sorted(dict(**m.__dict__)))


def _of_its_own(m: Any, i: int) -> None:
    print("{name} {count:d}".format(**Meter(f"meter {i}").__dict__))


WAYS = [_shown, _printed, _joined, _twice, _passed_on, _one_more, _of_its_own]


def outcomes(way: Callable[[Any, int], None], kind: type, jitted: bool) -> list[str]:
    """What calls print; in between the meter is changed from outside."""
    meter, found = kind("Loss", ":.3f"), []

    def step(x: fg.Tensor, i: int) -> fg.Tensor:
        loss = (x * x).mean()
        meter.update(loss.item(), x.shape[0])
        way(meter, i)
        return loss

    function = fg.jit(step) if jitted else step
    for i in range(16):
        if i == 8:
            meter.name, meter.sum = "Other", 3.0
        if i == 12:
            meter.late = 1  # which no template asks for
        if i == 11 and jitted and way not in (_passed_on, _one_more):
            sealed(function)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            if i == 12 and jitted:
                function.__wrapped__ = getattr(function, "sealed", function.__wrapped__)
            function(fg.arange(3.0) + i * 0.1, i)
        found.append(shown.getvalue())
    return found


@pytest.mark.parametrize("kind", [Meter, Doubled])
@pytest.mark.parametrize("way", WAYS)
def test_meters_show_what_they_show_in_eager(way: Callable[[Any, int], None], kind: type) -> None:
    assert outcomes(way, kind, True) == outcomes(way, kind, False)


def test_attributes_read_without_a_guard_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unguarded(observer: Any, owner: Any, site: Any) -> Any:
        return observer.local(dict(vars(owner)))

    monkeypatch.setattr(namespaces, "as_keywords", unguarded)
    with pytest.raises(AssertionError):
        test_meters_show_what_they_show_in_eager(_shown, Meter)
