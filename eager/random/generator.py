"""The generator of random numbers: a seed, and a counter that says how far its stream has come.

Counter-based: a draw depends on nothing but seed and counter. Block number c of a seed is what
Philox-4x64 makes of the 256-bit counter c+1 under that key: four 64-bit words (NumPy's
`Philox(key=seed, counter=c)` steps the counter first). A draw of n words takes the words of blocks
c, c+1, ... in order and advances the counter by ceil(n / 4). A kernel can so make element i of a
draw from (seed, counter, i) alone, and how many threads draw makes no difference.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.places.device import device as device_class, on_cpu
from fusegrad.eager.core.state import tell
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public

_SEED_BITS = (1 << 64) - 1
DEFAULT_SEED = 67280421310721  # PyTorch's
# NumPy's streams by where they stand, a seed and a counter: to make one takes as long as hundreds of words.
# Who draws takes one out and puts it back where it stands then, so that no two threads have one.
_streams: dict[tuple[int, int], np.random.Philox] = {}
_MOST_STREAMS = 8


class Generator:
    """A stream of random numbers: a seed and a counter. As `torch.Generator`.

    >>> import fusegrad as fg
    >>> g = fg.Generator().manual_seed(1)
    >>> a = fg.rand(3, generator=g)
    >>> bool((fg.rand(3, generator=g.manual_seed(1)) == a).all())
    True
    """

    __slots__ = ("counter", "seed_value")

    device = device_class("cpu")

    def __init__(self, device: Any = None) -> None:
        on_cpu(device)
        self.seed_value = DEFAULT_SEED
        self.counter = 0

    def __repr__(self) -> str:
        return f"<Generator of seed {self.seed_value} at block {self.counter}>"

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning."""
        tell("seeds the random generator")
        if not -(2**63) <= int(seed) < 2**64:
            raise failure(ValueError, f"Overflow when unpacking long long: a seed has 64 bits, got {seed}")
        self.seed_value = int(seed) & _SEED_BITS
        self.counter = 0
        return self

    def seed(self) -> int:
        """Start the stream of a seed that the system chooses; gives the seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).seed_value

    def initial_seed(self) -> int:
        """The seed of the stream."""
        tell("asks for the random generator's seed")
        return self.seed_value

    def get_state(self) -> Tensor:
        """Seed and counter as a uint8 tensor."""
        tell("reads the random generator's state")
        return wrap(
            np.frombuffer(np.array([self.seed_value, self.counter], np.uint64).tobytes(), np.uint8).copy()
        )

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state that `get_state` gave."""
        tell("sets the random generator's state")
        if not isinstance(new_state, Tensor) or new_state.array.dtype != np.uint8:
            raise failure(TypeError, "expected a torch.ByteTensor (a uint8 tensor that get_state gave)")
        if new_state.array.size != 16:
            raise failure(RuntimeError, f"a generator's state has 16 bytes, got {new_state.array.size}")
        values = np.frombuffer(new_state.array.tobytes(), np.uint64)
        self.seed_value, self.counter = int(values[0]), int(values[1])
        return self

    def clone_state(self) -> Generator:
        """Another generator that will draw the same numbers from here on."""
        tell("reads the random generator's state")
        twin = Generator()
        twin.seed_value, twin.counter = self.seed_value, self.counter
        return twin

    def words(self, count: int) -> np.ndarray:
        """The next `count` 64-bit words; the counter moves on by ceil(count / 4)."""
        seed, counter = self.seed_value, self.counter
        stream = _streams.pop((seed, counter), None) or np.random.Philox(key=seed, counter=counter)
        blocks = -(-count // 4)
        self.counter += blocks
        found = stream.random_raw(4 * blocks)
        if len(_streams) >= _MOST_STREAMS:
            _streams.clear()
        _streams[seed, counter + blocks] = stream
        return found[:count]


default_generator = Generator()


@public
def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed`; gives the generator. Source: `torch.manual_seed`."""
    return default_generator.manual_seed(seed)


@public
def seed() -> int:
    """Seed the default generator by chance. Source: `torch.seed`."""
    return default_generator.seed()


@public
def initial_seed() -> int:
    """The default generator's seed. Source: `torch.initial_seed`."""
    return default_generator.initial_seed()


@public
def get_rng_state() -> Tensor:
    """The default generator's state. Source: `torch.get_rng_state`."""
    return default_generator.get_state()


@public
def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state. Source: `torch.set_rng_state`."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **ignored: Any) -> Iterator[None]:
    """At the end of a `with` block, put the default generator back to where it was.

    Source: `torch.random.fork_rng`.

    >>> import fusegrad as fg
    >>> _ = fg.manual_seed(0)
    >>> with fg.random.fork_rng():
    ...     first = fg.rand(2)
    >>> bool((fg.rand(2) == first).all())
    True
    """
    if not enabled:
        yield
        return
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
