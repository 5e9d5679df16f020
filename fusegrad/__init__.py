"""fusegrad: PyTorch's way of writing and native speed on a CPU.

The names are PyTorch's; a program of its runs with `import fusegrad as torch`. This file only
gathers them: the engine stands in `fusegrad.eager`, the capture in `fusegrad.tracer`, the compiler
(with `jit`, `compare` and `export`, which load when they are first asked for) in `fusegrad.compiler`.

The functions are not listed here: a declaration makes its function public (see `eager/core/names.py`).
"""

# Some names shadow Python's own here, as they do in PyTorch: use builtins in this file with care.
import importlib as _importlib
import math as _math
import pkgutil as _pkgutil
import sys as _sys
import typing as _typing
import warnings as _warnings

from fusegrad.eager import (
    fft,
    io as _io,
    linalg,
    masked,
    nn,
    ops as _ops,
    optim,
    random,
    special,
    utils,
)
from fusegrad.eager.autograd import (
    autograd,
    func,
)
from fusegrad.eager.core import (
    names as _names,
)
from fusegrad.eager.core.dtypes import (
    DType as dtype,
    bool_ as bool,
    can_cast,
    complex64,
    complex64 as cfloat,
    complex128,
    complex128 as cdouble,
    default_float as get_default_dtype,
    finfo,
    float16,
    float16 as half,
    float32,
    float32 as float,
    float64,
    float64 as double,
    iinfo,
    int8,
    int16,
    int16 as short,
    int32,
    int32 as int,
    int64,
    int64 as long,
    promote_types,
    set_default_dtype,
    uint8,
)
from fusegrad.eager.core.state import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from fusegrad.eager.core.tensor import (
    Size,
    Tensor,
    device,
)
from fusegrad.eager.random.generator import (
    Generator,
    default_generator,
)

if _typing.TYPE_CHECKING:
    from fusegrad.compiler.compare.compare import compare as compare
    from fusegrad.compiler.jit import jit as jit
    from fusegrad.compiler.runtime.threads import (
        get_num_threads as get_num_threads,
        set_num_threads as set_num_threads,
    )
    from fusegrad.compiler.verify import JitError as JitError
    from fusegrad.tracer.export import export as export

# PyTorch computes 1 / 0 or exp(1000) without a word, so NumPy's warnings about them must not reach
# the user. np.errstate around each op would say so too, at 600 to 1,000 ns a call; a filter for what
# our own modules do costs nothing. It leaves the user's own NumPy code alone.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"fusegrad\.")

__version__ = "0.1.0"

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi

_LAZY = {
    "JitError": "fusegrad.compiler.verify",
    "jit": "fusegrad.compiler.jit",
    "compare": "fusegrad.compiler.compare.compare",
    "get_num_threads": "fusegrad.compiler.runtime.threads",
    "set_num_threads": "fusegrad.compiler.runtime.threads",
    "export": "fusegrad.tracer.export",
}


def __getattr__(name: str) -> _typing.Any:
    # The compiler loads Numba and LLVM: only when it is asked for.
    if name in _LAZY:
        value = getattr(_importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'fusegrad' has no attribute {name!r}")


# `import fusegrad.nn.functional as F` must find what `fusegrad.nn.functional` is.
_sys.modules |= {
    "fusegrad.autograd": autograd,
    "fusegrad.autograd.function": autograd.function,
    "fusegrad.autograd.functional": autograd.functional,
    "fusegrad.autograd.graph": autograd.graph,
    "fusegrad.func": func,
    "fusegrad.utils": utils,
    "fusegrad.utils.checkpoint": utils.checkpoint,
    "fusegrad.fft": fft,
    "fusegrad.linalg": linalg,
    "fusegrad.masked": masked,
    "fusegrad.nn": nn,
    "fusegrad.nn.functional": nn.functional,
    "fusegrad.nn.init": nn.init,
    "fusegrad.nn.utils": nn.utils,
    "fusegrad.nn.utils.parametrizations": nn.utils.parametrizations,
    "fusegrad.nn.utils.parametrize": nn.utils.parametrize,
    "fusegrad.nn.utils.rnn": nn.utils.rnn,
    "fusegrad.nn.parameter": nn.parameter,
    "fusegrad.optim": optim,
    "fusegrad.random": random,
    "fusegrad.special": special,
    "fusegrad.optim.lr_scheduler": optim.lr_scheduler,
    "fusegrad.optim.optimizer": optim.optimizer,
}

# A module's declarations are made as it is imported.
for _module in _pkgutil.walk_packages(_ops.__path__, f"{_ops.__name__}."):
    _importlib.import_module(_module.name)
globals().update(_names.PUBLIC)

__all__ = sorted(name for name in {*globals(), *_LAZY} - {"eager"} if not name.startswith("_"))
