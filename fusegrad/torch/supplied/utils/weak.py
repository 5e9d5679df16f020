"""`torch.utils.weak`: weak references by identity, since `==` of tensors compares their numbers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):
    """A weak reference that equals those of the same object. Source: `torch.utils.weak.WeakIdRef`."""

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = self._identity(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    @staticmethod
    def _identity(key: Any) -> int:
        return id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        # Two objects may have had one address, one after the other.
        mine, others = self(), other() if isinstance(other, weakref.ref) else None
        if mine is None or others is None:
            return self is other
        return self._identity(mine) == self._identity(others)


class _WeakHashRef(WeakIdRef):
    """A weak reference that equals those of objects with the same hash."""

    __slots__ = ()

    @staticmethod
    def _identity(key: Any) -> int:
        return hash(key)


class WeakIdKeyDictionary(MutableMapping):
    """A dict whose keys are compared by identity, and are let go of with the objects.

    Source: `torch.utils.weak.WeakIdKeyDictionary`.

    >>> import fusegrad as fg
    >>> x = fg.ones(2)
    >>> table = WeakIdKeyDictionary({x: "ones"})
    >>> table[x], fg.ones(2) in table
    ('ones', False)
    >>> del x
    >>> len(table)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type[weakref.ref] = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        mine = weakref.ref(self)

        def remove(key: weakref.ref) -> None:
            if (table := mine()) is not None:
                table.data.pop(key, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of what there are no weak references
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        # A key that dies meanwhile leaves the table, not the list.
        return (key for ref in [*self.data] if (key := ref()) is not None)

    def keyrefs(self) -> list[weakref.ref]:
        """The weak references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A table of the same values."""
        return WeakIdKeyDictionary(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        import copy

        return type(self)({key: copy.deepcopy(value, memo) for key, value in self.items()})

    def __or__(self, other: Any) -> Any:
        if not hasattr(other, "keys"):
            return NotImplemented
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: Any) -> Any:
        if not hasattr(other, "keys"):
            return NotImplemented
        both = type(self)(other)
        both.update(self)
        return both

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not hasattr(other, "items"):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor. Source: `torch.utils.weak.TensorWeakRef`."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
