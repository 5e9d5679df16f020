"""Variables of the process's environment: a name goes in, its text comes out, which is read."""

from __future__ import annotations

import functools
import os
from typing import Any

from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site


def item(observer: Observer, owner: Any, key: Any, site: Site) -> Any:
    """`os.environ[key]`. Raises KeyError where there is no such variable."""
    if owner is not os.environ or type(key) is not str:
        observer.open("looks into an environment by something else than a name", site)
        return owner[key]
    found, again = _text(key, owner), functools.partial(_text, key)
    words = f"environment variable `{key}`"
    observer.read(("environment", key), lambda: GetterRead(owner, again, found, words, site))
    try:
        return owner[key]
    except KeyError as error:
        observer.explain(error)
        raise


def _text(key: str, environment: Any) -> Any:
    try:
        return environment[key]
    except KeyError:
        return MISSING
