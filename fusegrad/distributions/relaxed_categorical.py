"""`ExpRelaxedCategorical` and `RelaxedOneHotCategorical`, as `torch.distributions.relaxed_categorical`."""

from fusegrad.eager.distributions.relaxed import (
    ExpRelaxedCategorical as ExpRelaxedCategorical,
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]
