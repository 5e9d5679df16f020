"""`StudentT`, as `torch.distributions.studentT`."""

from fusegrad.eager.distributions.real_line import StudentT as StudentT

__all__ = ["StudentT"]
