"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.distributions.event_transforms import (
    CatTransform as CatTransform,
    CorrCholeskyTransform as CorrCholeskyTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    ReshapeTransform as ReshapeTransform,
    SoftmaxTransform as SoftmaxTransform,
    StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform,
)
from fusegrad.eager.distributions.number_transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    ExpTransform as ExpTransform,
    PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform,
    SoftplusTransform as SoftplusTransform,
    TanhTransform as TanhTransform,
)
from fusegrad.eager.distributions.transforms import (
    ComposeTransform as ComposeTransform,
    ComposeTransform as _ComposeTransform,
    IndependentTransform as IndependentTransform,
    Transform as Transform,
)

identity_transform: _ComposeTransform
