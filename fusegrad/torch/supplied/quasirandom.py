"""`torch.quasirandom`: Sobol's sequences, which fill a cube more evenly than random points do.

The direction numbers are those of Joe and Kuo (2008), as SciPy has them. Scrambled sequences multiply them by
random lower triangular matrices of bits and shift all points by a random one (Owen, 1998).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fusegrad
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of [0, 1)^dimension, one after the other. Source: `torch.quasirandom.SobolEngine`.

    Raises ValueError for a dimension that is not from 1 to 21201.

    >>> SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        from scipy.stats import _sobol

        if not 1 <= dimension <= self.MAXDIM:
            raise failure(
                ValueError, f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        directions = np.zeros((dimension, self.MAXBIT), np.uint64)
        _sobol._initialize_v(directions, dimension, self.MAXBIT)
        self._directions, self._shift = directions, np.zeros(dimension, np.uint64)
        if scramble:
            self._directions, self._shift = self._scrambled(directions)
        self.num_generated = 0

    def _scrambled(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Other direction numbers, and the first point."""
        generator = None if self.seed is None else fusegrad.Generator().manual_seed(self.seed)
        bits, size = self.MAXBIT, (self.dimension, self.MAXBIT)
        place = np.uint64(1) << np.arange(bits, dtype=np.uint64)
        shift = (fusegrad.randint(2, size, generator=generator).numpy().astype(np.uint64) * place).sum(1)
        random = fusegrad.randint(2, (*size, bits), generator=generator).numpy()
        lower = np.tril(random, -1) + np.eye(bits, dtype=random.dtype)
        # Bits with the highest first, as rows of the matrices count them.
        known = (directions[..., None] >> np.arange(bits, dtype=np.uint64)[::-1]) & np.uint64(1)
        mixed = np.einsum("dij,dkj->dki", lower, known.astype(np.int64)) % 2
        return (mixed.astype(np.uint64) * place[::-1]).sum(-1), shift

    def _points(self, first: int, count: int) -> np.ndarray:
        """`count` points from number `first` on, as whole numbers: of Gray's codes of their numbers."""
        number = np.arange(first, first + count, dtype=np.uint64)
        gray = number ^ (number >> np.uint64(1))
        points = np.repeat(self._shift[None], count, 0)
        for bit in range(self.MAXBIT):
            chosen = (gray >> np.uint64(bit)) & np.uint64(1) == 1
            points[chosen] ^= self._directions[:, bit]
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points, (n, dimension) numbers of `dtype`, written into `out` if there is one."""
        points = self._points(self.num_generated, n) / float(1 << self.MAXBIT)
        self.num_generated += n
        made = fusegrad.tensor(points, dtype=dtypes.default_float() if dtype is None else dtype)
        return made if out is None else out.resize_as_(made).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points. Raises ValueError where all that were drawn are then no power of 2."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise failure(
                ValueError,
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}; use draw() instead",
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave `n` points out."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        shown = [f"dimension={self.dimension}"]
        shown += ["scramble=True"] if self.scramble else []
        shown += [f"seed={self.seed}"] if self.seed is not None else []
        return f"SobolEngine({', '.join(shown)})"
