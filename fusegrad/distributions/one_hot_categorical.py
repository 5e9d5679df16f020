"""Classes as vectors with one 1, as `torch.distributions.one_hot_categorical`."""

from fusegrad.eager.distributions.classes import (
    OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]
