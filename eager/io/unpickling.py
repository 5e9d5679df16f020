"""What pickles in files of PyTorch's describe: what is known and allowed, or all that pickle takes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.places.device import device
from fusegrad.eager.core.tensor import Size
from fusegrad.eager.io import class_names
from fusegrad.eager.io.allowed import allowed, finder
from fusegrad.eager.io.pickle_machine import Maker, Source, unpickled
from fusegrad.eager.io.torch_names import NAMES, StorageType
from fusegrad.eager.nn.parameter import Parameter

# Classes that only known arguments are given to where a file is not trusted.
_CLASSES = {
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch.nn.parameter", "Parameter"): Parameter,
}
_MOVED = {"torch.tensor": "torch._tensor"}
_TOPS = ("torch", "functorch")


class Careful:
    """Runs nothing but what is known and what the program has allowed."""

    trusts = False

    def __init__(self, encoding: str = "utf-8") -> None:
        own = allowed()
        self.find = finder(own)
        self.values = list(own.values())
        self.encoding = encoding

    def value(self, source: Source, persistent: Callable[[Any], Any] = lambda name: None) -> Any:
        """The value that the pickle at the source describes."""
        return unpickled(source, self.find, persistent, self._is_allowed, self._text)

    def _is_allowed(self, value: Any) -> bool:
        return any(value is one for one in self.values)

    def _text(self, content: bytes) -> Any:
        return content if self.encoding == "bytes" else content.decode(self.encoding)


class Trusting:
    """Python's pickle, or another module of its kind, which runs what the file says."""

    trusts = True

    def __init__(self, module: Any = pickle, **options: Any) -> None:
        self.module, self.options = module, {"encoding": "utf-8", **options}

    def value(self, source: Source, persistent: Callable[[Any], Any] = lambda name: None) -> Any:
        """The value that the pickle at the source describes."""

        class Unpickler(self.module.Unpickler):  # type: ignore[name-defined]
            def find_class(self, module: str, name: str) -> Any:
                place = _MOVED.get(module, module), name
                if place[0].partition(".")[0] not in _TOPS:
                    return super().find_class(*place)
                known = _known(*place)
                return class_names.read(*place) if known is None else known

        before = source.file.tell()
        unpickler = Unpickler(source.file, **self.options)
        unpickler.persistent_load = persistent
        value = unpickler.load()
        source.left -= source.file.tell() - before
        return value


def _known(module: str, name: str) -> Any:
    """What a name of the format itself stands for: makers of tensors, dtypes, kinds of memories."""
    if (module, name) in _CLASSES:
        return _CLASSES[module, name]
    found = NAMES.get((module, name))
    return found if isinstance(found, (Maker, DType, StorageType, type)) else None
