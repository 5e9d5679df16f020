"""The same function in torch or JAX, as contenders.

The user gives the function in the peer's own words; the harness converts the arguments, asks for
the same gradients, and calls it the way the peer does it best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from fusegrad.compiler.compare.contenders import Arrays, Case, Contender
from fusegrad.compiler.compare.terminal import installed
from fusegrad.eager.core.tensor import Tensor

Peers = Mapping[str, Callable[..., Any]]


def check_peers(peers: Peers, case: Case) -> None:
    """Refuse peers that could not be compared, before anything is timed.

    Raises ValueError for an unknown name, or where a peer could not see all that gets a gradient.
    """
    for name in peers:
        if name not in BUILDERS:
            raise ValueError(f"compare: no peer is called {name!r}; there are: {', '.join(BUILDERS)}")
    if peers and case.outside:
        raise ValueError(
            f"compare: {case.name} reaches {len(case.outside)} tensors with gradients that are no arguments, "
            "which the peers could not be given; pass them as arguments"
        )
    for value in case.values:
        if peers and not isinstance(value, (Tensor, bool, int, float, complex, str, type(None))):
            raise ValueError(f"compare: peers take tensors and numbers, not a {type(value).__name__}")


def peer_contenders(peers: Peers, case: Case, cleanup: ExitStack, notes: list[str]) -> list[Contender]:
    """A contender for each peer that is installed; a note for each that is not."""
    contenders = []
    for name, function in peers.items():
        package = name.split(".")[0]
        if installed(package):
            contenders.append(BUILDERS[name](name, function, case, cleanup))
        else:
            notes.append(f"{name} is left out: {package} is not installed")
    return contenders


def converted(case: Case, change: Callable[[Tensor], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with every tensor changed; one that is given twice stays one."""
    made = {id(v): change(v) for v in case.values if isinstance(v, Tensor)}
    return case.structure.build(iter([made.get(id(v), v) for v in case.values]))


# torch.


def torch_contender(name: str, function: Callable[..., Any], case: Case, cleanup: ExitStack) -> Contender:
    """torch: eager, or under torch.compile where the name says so."""
    import torch

    if name == "torch.compile":
        function = torch.compile(function)
    wanted = {id(leaf) for leaf in case.leaves}
    made: dict[int, Any] = {}

    def change(tensor: Tensor) -> Any:
        made[id(tensor)] = torch.from_numpy(tensor.array.copy())
        return made[id(tensor)].requires_grad_(id(tensor) in wanted)

    args, kwargs = converted(case, change)
    leaves = [made[id(leaf)] for leaf in case.leaves]
    tensors = torch.utils._pytree.tree_leaves

    def forward() -> Any:
        with torch.no_grad():
            return function(*args, **kwargs)

    def both() -> Any:
        for leaf in leaves:
            leaf.grad = None
        result = function(*args, **kwargs)
        if isinstance(result, torch.Tensor) and not result.shape:
            result.backward()
        else:
            roots = [t for t in tensors(result) if isinstance(t, torch.Tensor) and t.requires_grad]
            torch.autograd.backward(roots, [torch.ones_like(t) for t in roots])
        return result

    measured = both if leaves else forward

    def arrays() -> tuple[Arrays, Arrays]:
        found = [t for t in tensors(measured()) if isinstance(t, torch.Tensor)]
        gradients = [leaf.grad.numpy().copy() for leaf in leaves if leaf.grad is not None]
        return [t.detach().numpy().copy() for t in found], gradients

    return Contender(name, forward, both if leaves else None, arrays, measured)


# JAX.


def jax_contender(name: str, function: Callable[..., Any], case: Case, cleanup: ExitStack) -> Contender:
    """JAX: `jit(f)` and `jit(value_and_grad(f))` on device arrays, waited for."""
    import jax
    import jax.numpy as jnp

    tensors = list({id(v): v for v in case.values if isinstance(v, Tensor)}.values())
    if any(t.array.dtype in (np.float64, np.complex128) for t in tensors):
        cleanup.callback(jax.config.update, "jax_enable_x64", jax.config.read("jax_enable_x64"))
        jax.config.update("jax_enable_x64", True)
    wide = jax.config.read("jax_enable_x64")
    arrays = [jnp.asarray(t.array if wide else _narrow(t.array)) for t in tensors]
    places = {id(t): i for i, t in enumerate(tensors)}
    wanted = tuple(places[id(leaf)] for leaf in case.leaves)

    def call(*given: Any) -> Any:
        # Python values are constants of the traced function, as they are of ours.
        args, kwargs = converted(case, lambda tensor: given[places[id(tensor)]])
        return function(*args, **kwargs)

    def total(*given: Any) -> tuple[Any, Any]:
        result = call(*given)
        floats = [leaf for leaf in jax.tree.leaves(result) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return sum((jnp.sum(leaf) for leaf in floats), jnp.zeros((), floats[0].dtype)), result

    run = jax.jit(call)
    derive = jax.jit(jax.value_and_grad(total, wanted, has_aux=True)) if wanted else None
    wait = jax.block_until_ready

    def forward() -> Any:
        return wait(run(*arrays))

    def both() -> Any:
        assert derive is not None
        return wait(derive(*arrays))

    def compared() -> tuple[Arrays, Arrays]:
        result, gradients = (both()[0][1], both()[1]) if derive is not None else (forward(), ())
        return [np.array(r) for r in jax.tree.leaves(result)], [np.array(g) for g in gradients]

    return Contender(name, forward, both if wanted else None, compared, both if wanted else forward)


def _narrow(array: np.ndarray) -> np.ndarray:
    """64-bit integers as the 32-bit ones that JAX would make of them, with a warning."""
    return (
        array.astype({"i": np.int32, "u": np.uint32}[array.dtype.kind])
        if array.dtype.itemsize == 8
        else array
    )


BUILDERS: dict[str, Callable[[str, Callable[..., Any], Case, ExitStack], Contender]] = {
    "torch": torch_contender,
    "torch.compile": torch_contender,
    "jax": jax_contender,
}
