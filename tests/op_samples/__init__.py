"""One table of op samples: it drives the tests of every op, eager and compiled.

`SAMPLES[op name]` lists `Sample(call, inputs)`: `call(fg, *tensors)` runs the op through the public
namespace `fg`, which may be fusegrad or torch; `inputs` are NumPy arrays for the tensors. The
table covers `REGISTRY` (a test checks it), so an op cannot be declared without samples. Each module
of this package fills a part of it.
"""

import importlib
import pkgutil

from op_samples.table import SAMPLES, Sample

__all__ = ["SAMPLES", "Sample"]

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
