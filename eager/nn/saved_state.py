"""A module's values by name: `state_dict`, and `load_state_dict`, which changes all or nothing."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from fusegrad.eager.core.errors import failure, type_name, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.hooks import RemovableHandle

_EXTRA = "_extra_state"


class IncompatibleKeys(tuple[list[str], list[str]]):
    """What `load_state_dict` found missing and unexpected."""

    __slots__ = ()
    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self) -> str:
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


class Saved:
    """The state of a module. `Module` builds on it; subclasses may redefine `_save_to_state_dict`,
    `_load_from_state_dict`, `get_extra_state` and `set_extra_state`, as in PyTorch."""

    _version: int = 1  # of the class's state, for those who change what they save
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: dict[int, Any]
    _state_dict_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    def get_extra_state(self) -> Any:
        """What else `state_dict` saves; redefined together with `set_extra_state`."""
        raise NotImplementedError("get_extra_state: defined by modules that have extra state")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` gave."""
        raise NotImplementedError("set_extra_state: defined by modules that have extra state")

    # Hooks.

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)`, which may change the dict in place."""
        with contextlib.suppress(AttributeError):  # of methods of objects
            hook._from_public_api = True  # type: ignore[attr-defined]
        return RemovableHandle(self._state_dict_hooks, (hook, False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise failure(
                RuntimeError,
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook",
            )
        return RemovableHandle(self._state_dict_hooks, (hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` before loading; it may change all of them in place."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return RemovableHandle(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after the keys were compared, before an error is raised;
        it may change the lists of keys in place."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    # Saving.

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name; they share the module's memory.

        destination: a dict to write into. keep_vars: the parameters themselves, not detached.
        """
        if args:
            warn("Positional args are being deprecated, use kwargs", FutureWarning)
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(**given)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, replaces in tuple(self._state_dict_hooks.values()):
            made = hook(self, destination, prefix, metadata)
            if made is not None and not replaces:
                raise failure(RuntimeError, "state_dict post-hook must return None")
            destination = destination if made is None else made
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Saved.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers of this module alone."""
        skipped = self._non_persistent_buffers_set
        own = [*self._parameters.items(), *((n, b) for n, b in self._buffers.items() if n not in skipped)]
        return {name: value for name, value in own if value is not None}

    # Loading.

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into parameters and buffers; gives the keys that were missing and unexpected.

        assign: make the tensors themselves the parameters and buffers, with their dtypes. Raises
        RuntimeError, with nothing changed, that names missing and unexpected keys (if `strict`) and
        shapes that differ.
        """
        if not isinstance(state_dict, Mapping):
            raise failure(TypeError, f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(assign, getattr(state_dict, "_metadata", None) or {})
        loading.visit(self, OrderedDict(state_dict), "")
        errors = loading.errors
        if strict:
            for what, keys in (("Unexpected", loading.unexpected), ("Missing", loading.missing)):
                if keys:
                    named = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {named}. ")
        if errors:
            text = "\n\t".join(errors)
            raise failure(
                RuntimeError, f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
            )
        loading.finish()
        return IncompatibleKeys((loading.missing, loading.unexpected))

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Compare this module's own state with `state_dict`; the writes are done when all has fitted."""
        later: list[Callable[[], Any]] = local_metadata.get(_LATER, [])
        for hook, with_module in tuple(self._load_state_dict_pre_hooks.values()):
            given = (self,) if with_module else ()
            hook(
                *given, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
            )
        own = self._own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            source = _fitted(key, state_dict[key], target, error_msgs)
            if source is not None and target.is_meta and not (source.is_meta or assign):
                warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in "
                    "the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
                    "items in the state dictionary to their corresponding key in the module instead of "
                    "copying them in place?)"
                )
            if source is not None:
                later.append(partial(self._take, name, target, source, assign))
        extra = prefix + _EXTRA
        if type(self).set_extra_state is not Saved.set_extra_state:
            if extra in state_dict:
                later.append(lambda: self.set_extra_state(state_dict[extra]))
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys += self._unexpected(state_dict, prefix, own)
        if _LATER not in local_metadata:
            for write in later:
                write()

    def _unexpected(self, keys: Iterable[str], prefix: str, own: Mapping[str, Any]) -> list[str]:
        found = []
        for key in keys:
            if key.startswith(prefix) and key != prefix + _EXTRA:
                first, *rest = key[len(prefix) :].split(".", 1)
                if first not in (self._modules if rest else own):
                    found.append(key)
        return found

    def _take(self, name: str, target: Tensor, source: Tensor, assign: bool) -> None:
        """Make `source` the value of a parameter or buffer."""
        if not assign:
            with no_grad():
                target.copy_(source)
            return
        kind: Any = type(target)
        if name in self._parameters and not isinstance(source, kind):
            source = kind(source, requires_grad=target.requires_grad)
        elif name in self._parameters:
            source.requires_grad_(target.requires_grad)
        setattr(self, name, source)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take `prefix` away from the names in a state dict, in place; `"module."`, say, of a wrapped model.

    Source: `torch.nn.modules.utils.consume_prefix_in_state_dict_if_present`.

    >>> from fusegrad.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for names in (state_dict, getattr(state_dict, "_metadata", {})):
        for name in list(names):
            if name.startswith(prefix) or (names is not state_dict and name and f"{name}." == prefix):
                names[name[len(prefix) :]] = names.pop(name)


_LATER = "_writes"  # in the metadata: where writes wait until the whole dict has been compared


class _Loading:
    """One `load_state_dict`: what was found on the way, and what is to be written at the end."""

    def __init__(self, assign: bool, metadata: Mapping[str, Any]) -> None:
        self.assign, self.metadata = assign, metadata
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []
        self.writes: list[Callable[[], Any]] = []

    def visit(self, module: Any, state_dict: dict[str, Any], prefix: str) -> None:
        """Compare `module` and those below it with the entries that start with `prefix`."""
        local = {**self.metadata.get(prefix[:-1], {}), _LATER: self.writes}
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state_dict, prefix, local, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                self.visit(child, {k: v for k, v in state_dict.items() if k.startswith(below)}, below)
        keys = IncompatibleKeys((self.missing, self.unexpected))
        for hook in tuple(module._load_state_dict_post_hooks.values()):
            if hook(module, keys) is not None:
                raise failure(
                    AssertionError,
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                    "new values; change incompatible_keys in place",
                )

    def finish(self) -> None:
        """Do the writes."""
        for write in self.writes:
            write()


def _fitted(key: str, value: Any, target: Tensor, errors: list[str]) -> Tensor | None:
    """`value` if it can be loaded into `target`; otherwise None, with the reason among `errors`.

    As in PyTorch tensors can be, of PyTorch's, too, and no arrays.
    """
    if not hasattr(type(value), "__torch_function__"):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
            f"checkpoint but received {type(value)}"
        )
        return None
    try:
        value = ops.tensor_of_data(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        errors.append(f"{key}: {type_name(value)} cannot become a tensor: {str(error).splitlines()[0]}")
        return None
    if target.shape == () and value.shape == (1,):
        return ops.reshape(value, ())  # as PyTorch before 0.4 saved numbers
    if value.shape != target.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {target.shape}."
        )
        return None
    return value
