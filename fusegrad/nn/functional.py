"""Functions of neural networks, as `torch.nn.functional`."""

from fusegrad.eager.core.public import formed_when_asked as _formed_when_asked
from fusegrad.eager.nn.functional import *
from fusegrad.eager.nn.functional import __all__ as __all__
from fusegrad.eager.ops.shape.out import give_forms as _give_forms
from fusegrad.nn import grad as grad

_give_forms("fusegrad.nn.functional", globals())
__getattr__ = _formed_when_asked(globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
