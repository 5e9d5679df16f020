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
import warnings as _warnings

from fusegrad.eager import (
    forks as _forks,
    garbage as _garbage,
    ops as _ops,
)
from fusegrad.eager.autograd import autograd as _autograd
from fusegrad.eager.batching import natively as _natively
from fusegrad.eager.core import (
    large as _large,
    names as _names,
    op as _op,
    public as _public,
    settings as _settings,
)
from fusegrad.eager.core.dtypes import (
    DType as dtype,
    bfloat16,
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
    uint16,
    uint32,
    uint64,
)
from fusegrad.eager.core.memory_order import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    strided,
)
from fusegrad.eager.core.public import (
    MAKERS as _MAKERS,
    form as _form,
    locate as _locate,
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
from fusegrad.eager.io import (
    printing as _printing,
    shared_memory as _shared_memory,
)
from fusegrad.eager.io.interop import (
    _rebuild,
)
from fusegrad.eager.io.storage import (
    TypedStorage,
    UntypedStorage,
)
from fusegrad.eager.random import (
    Generator,
    default_generator,
)

# PyTorch computes 1 / 0 or exp(1000) without a word, so NumPy's warnings about them must not reach
# the user. np.errstate around each op would say so too, at 600 to 1,000 ns a call; a filter for what
# our own modules do costs nothing. It leaves the user's own NumPy code alone.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"fusegrad\.")
_garbage.look_less_often()
_public.torch_face = lambda: _importlib.import_module("fusegrad.torch.face")
if _settings.RED_ZONES:
    _importlib.import_module("fusegrad.compiler.runtime.red_zones")

__version__ = "0.1.0"

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi

# Loaded when they are first asked for: the compiler brings Numba and LLVM. (Type checkers read __init__.pyi.)
_LAZY = {
    "JitError": "fusegrad.compiler.verify",
    "jit": "fusegrad.compiler.torch_names",
    "compile": "fusegrad.compiler.torch_names",
    "compare": "fusegrad.compiler.compare.compare",
    "OutOfMemoryError": "fusegrad.eager.devices.cuda",
    "batched": "fusegrad.eager.batching.batched",
    "batching": "fusegrad.eager.batching.batched",
    "autocast": "fusegrad.eager.devices.amp",
    "is_autocast_enabled": "fusegrad.eager.devices.autocasting",
    "cond": "fusegrad.eager.utils.control_flow",
    "scan": "fusegrad.eager.utils.control_flow",
    "while_loop": "fusegrad.eager.utils.control_flow",
    "get_num_threads": "fusegrad.compiler.runtime.threads",
    "set_num_threads": "fusegrad.compiler.runtime.threads",
    "cfunc": "fusegrad.compiler.library.callbacks",
    "grad": "fusegrad.eager.autograd.func:grad_of",
    "hessian": "fusegrad.eager.autograd.func",
    "jacobian": "fusegrad.eager.autograd.func",
    "jvp": "fusegrad.eager.autograd.func",
    "load": "fusegrad.eager.io.serialization",
    "save": "fusegrad.eager.io.serialization",
    "value_and_grad": "fusegrad.eager.autograd.func",
    "vjp": "fusegrad.eager.autograd.func",
    "vmap": "fusegrad.eager.utils.vmap",
}
_PACKAGES = frozenset(
    "accelerator amp autograd backends cpu cuda distributed distributions export fft func library linalg "
    "masked mps multiprocessing nested nn onnx optim profiler random sparse special testing utils version "
    "xpu".split()
)


def __getattr__(name: str) -> object:
    if name in _names.PUBLIC:
        value = globals()[name] = _form(_names.PUBLIC[name])
        return value
    if name in _PACKAGES:
        return _importlib.import_module(f"fusegrad.{name}")
    if name in _LAZY:
        module, _, there = _LAZY[name].partition(":")
        value = globals()[name] = getattr(_importlib.import_module(module), there or name)
        _locate("fusegrad", globals(), [name])
        return value
    raise AttributeError(f"module 'fusegrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_names.PUBLIC, *_LAZY, *_PACKAGES})


# Beside the program: loading the compiler takes longer than most of what it is for.
_forks.Installing(_large.answers, "fusegrad.compiler.eager_kernels")
_forks.Installing(_op.natively, "fusegrad.compiler.native.running")
_forks.Installing(_natively.natively, "fusegrad.compiler.native.waiting")

# A module's declarations are made as it is imported.
for _module in _pkgutil.walk_packages(_ops.__path__, f"{_ops.__name__}."):
    _importlib.import_module(_module.name)
_importlib.import_module("fusegrad.eager.ops.shape.out").give_forms("fusegrad", _names.PUBLIC)
# What has a form for users is given that when it is first asked for.
globals().update({_name: _function for _name, _function in _names.PUBLIC.items() if _function not in _MAKERS})

__all__ = sorted(name for name in set(__dir__()) - {"eager"} if not name.startswith("_"))
# What no declaration has said so of; `_rebuild` is in pickles of tensors.
_locate("fusegrad", globals(), [*__all__, "_rebuild"])
