"""The list of cases, and the names of the sources that they cite."""

from collections import namedtuple


Case = namedtuple("Case", "id category hazard source needs func")
CASES = []
_CAT = ["?"]


def category(name):
    _CAT[0] = name


def case(id, hazard, source, needs=""):
    """needs: optional features a backend may declare as unsupported."""
    def deco(fn):
        assert all(c.id != id for c in CASES), id
        CASES.append(Case(id, _CAT[0], hazard, source, frozenset(needs.split()), fn))
        return fn
    return deco


class D:
    """Deferred argument: built afresh for each call."""
    def __init__(self, f):
        self.f = f


# sources cited below
_DY = "pytorch test/dynamo/"
MISC, FUNC, REPRO, MODS = _DY + "test_misc.py::", _DY + "test_functions.py::", _DY + "test_repros.py::", _DY + "test_modules.py::"
SUBG, UNSP, GLOB, EXC_ = _DY + "test_subgraphs.py::", _DY + "test_unspec.py::", _DY + "test_global.py::", _DY + "test_exceptions.py::"
GEN_, AUTF, CTX_, HOOK = _DY + "test_generator.py::", _DY + "test_autograd_function.py::", _DY + "test_ctx_manager.py::", _DY + "test_hooks.py::"
RECO, SKIP, EXPO, HOPS = _DY + "test_recompile_ux.py::", _DY + "test_skip_non_tensor.py::", _DY + "test_export.py::", _DY + "test_higher_order_ops.py::"
PYAG = _DY + "test_python_autograd.py::"
TRC = "pytorch test/jit/test_tracer.py::"
AOT = "pytorch test/functorch/test_aotdispatch.py::"
JAX, JAXM, JAXD = "jax tests/api_test.py::", "jax tests/mutable_array_test.py::", "jax docs/"
PTI, JXI = "https://github.com/pytorch/pytorch/issues/", "https://github.com/jax-ml/jax/issues/"
TGI, NBI, MLI = "https://github.com/tinygrad/tinygrad/issues/", "https://github.com/numba/numba/issues/", "https://github.com/ml-explore/mlx/"
