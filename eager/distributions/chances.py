"""Chances and their logits: what distributions by one of the two share."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions.distribution import Distribution, broadcast_all


def clamp_probs(probs: Tensor) -> Tensor:
    """Chances kept off 0 and 1, so that their logarithms are finite."""
    least = dtypes.finfo(probs.dtype).eps
    return probs.clamp(min=least, max=1 - least)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logits of chances; of several classes, their logarithms.

    Source: `torch.distributions.utils.probs_to_logits`.
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The chances of logits; of several classes, that sum to 1.

    Source: `torch.distributions.utils.logits_to_probs`.
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def one_of_two(probs: Any, logits: Any) -> None:
    """Refuse both, or none."""
    if (probs is None) == (logits is None):
        raise failure(ValueError, "Either `probs` or `logits` must be specified, but not both.")


class Chance(Distribution):
    """A distribution by a chance, given as `probs` or `logits`; the other is computed when asked for."""

    _probs: Tensor | None
    _logits: Tensor | None

    def _keep(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Keep what is given, broadcast with others; gives these."""
        one_of_two(probs, logits)
        given, *rest = broadcast_all(logits if probs is None else probs, *others)
        self._probs, self._logits = (None, given) if probs is None else (given, None)
        return (given, *rest)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        for name in ("_probs", "_logits"):
            if getattr(self, name) is None:
                setattr(new, name, None)

    @property
    def probs(self) -> Tensor:
        """The chance."""
        return self._of_logits(self._logits) if self._probs is None else self._probs  # type: ignore[arg-type]

    @probs.setter
    def probs(self, value: Tensor) -> None:
        self._probs, self._logits = value, None

    def _of_logits(self, logits: Tensor) -> Tensor:
        return logits_to_probs(logits, True)

    @property
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        return probs_to_logits(self._probs, True) if self._logits is None else self._logits  # type: ignore[arg-type]

    @logits.setter
    def logits(self, value: Tensor) -> None:
        self._probs, self._logits = None, value

    @property
    def _param(self) -> Tensor:
        given = self._logits if self._probs is None else self._probs
        assert given is not None
        return given

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        """A tensor of the parameter's type. Source: `torch.Tensor.new`."""
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape


class Classes(Distribution):
    """A distribution by the chances of classes along the last dimension, given as `probs` or `logits`."""

    _probs: Tensor | None
    _logits: Tensor | None

    def _keep(self, probs: Any, logits: Any) -> Tensor:
        """Keep what is given, so that chances sum to 1; gives that."""
        one_of_two(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise failure(ValueError, "`probs` parameter must be at least one-dimensional.")
            self._probs, self._logits = probs / probs.sum(-1, keepdim=True), None
            return self._probs
        if logits.dim() < 1:
            raise failure(ValueError, "`logits` parameter must be at least one-dimensional.")
        self._probs, self._logits = None, logits - logits.logsumexp(-1, keepdim=True)
        return self._logits

    def _expand_rest(self, new: Any, shape: Size) -> None:
        for name in ("_probs", "_logits"):
            if getattr(self, name) is None:
                setattr(new, name, None)

    @property
    def probs(self) -> Tensor:
        """The chances of the classes, which sum to 1."""
        return logits_to_probs(self._logits) if self._probs is None else self._probs  # type: ignore[arg-type]

    @probs.setter
    def probs(self, value: Tensor) -> None:
        self._probs, self._logits = value, None

    @property
    def logits(self) -> Tensor:
        """The logarithms of the chances."""
        return probs_to_logits(self._probs) if self._logits is None else self._logits  # type: ignore[arg-type]

    @logits.setter
    def logits(self, value: Tensor) -> None:
        self._probs, self._logits = None, value

    @property
    def _param(self) -> Tensor:
        given = self._logits if self._probs is None else self._probs
        assert given is not None
        return given

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        """A tensor of the parameter's type. Source: `torch.Tensor.new`."""
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape


def along_first(values: Tensor, dims: int) -> Tensor:
    """A vector along a new first dimension before `dims` others of one element each."""
    return values.reshape((-1, *[1] * dims))


def whole_numbers(count: int, like: Tensor) -> Tensor:
    """0, 1, ... `count` in the dtype of `like`."""
    return ops.arange(1 + count, dtype=like.dtype)


locate("fusegrad.distributions.utils", globals(), ["clamp_probs", "logits_to_probs", "probs_to_logits"])
