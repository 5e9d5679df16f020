"""`torch.hub`: models of local folders, and files that were fetched before or can be."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

import fusegrad as fg
from fusegrad.torch.stand_ins import decline

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: str | None = None
_list = list


def _get_torch_home() -> str:
    """The folder of what is kept between runs: TORCH_HOME, or `torch` in that of all programs."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of models. Source: `torch.hub.get_dir`."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of models. Source: `torch.hub.set_dir`."""
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


@contextlib.contextmanager
def _entries(repo_or_dir: str, source: str) -> Iterator[ModuleType]:
    """The `hubconf.py` of a folder, with the folder on the path."""
    if source != "local":
        decline("torch.hub.load of a repository; get it, and give its folder with source='local'")
    folder = os.path.abspath(os.path.expanduser(repo_or_dir))
    spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False, **options: Any
) -> _list[str]:
    """The models that a folder offers. Source: `torch.hub.list`."""
    with _entries(github, options.get("source", "local" if os.path.isdir(github) else "github")) as module:
        return [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, **options: Any) -> str | None:
    """What a folder says of a model. Source: `torch.hub.help`."""
    with _entries(github, options.get("source", "local" if os.path.isdir(github) else "github")) as module:
        doc: str | None = getattr(module, model).__doc__
        return doc


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The model that a folder's `hubconf.py` makes, with `source="local"`. Source: `torch.hub.load`.

    Raises NotImplementedError for a repository that would have to be fetched.
    """
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(name, None)
    with _entries(repo_or_dir, source) as module:
        if not callable(getattr(module, model, None)):
            raise RuntimeError(f"Cannot find callable {model} in hubconf")
        return getattr(module, model)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a file. Raises RuntimeError where its SHA256 begins otherwise than `hash_prefix`."""
    target = Path(os.path.expanduser(dst))
    digest = hashlib.sha256()
    with (
        urllib.request.urlopen(url) as answer,
        tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file,
    ):
        try:
            while block := answer.read(1 << 17):
                file.write(block)
                digest.update(block)
            file.close()
            found = digest.hexdigest()
            if hash_prefix is not None and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            shutil.move(file.name, target)
        finally:
            Path(file.name).unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What a file holds, which is fetched if it is not in the folder of models.

    Source: `torch.hub.load_state_dict_from_url`.
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        found = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return fg.load(path, map_location=map_location)


def _no_bar(iterable: Any = (), *args: Any, **options: Any) -> Any:
    return iterable


try:
    from tqdm import tqdm
except ImportError:
    tqdm = _no_bar
