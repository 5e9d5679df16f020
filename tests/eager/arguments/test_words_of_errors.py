"""What programs read of errors in PyTorch's words: what `torch` says stands in what fusegrad says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops.shape import out

# Calls that both refuse, of m (a library), a matrix e and i, an `out` of another dtype.
CALLS = """
m.linalg.eigh(e, out=(i, i))
m.linalg.eigvalsh(e, out=i)
m.linalg.inv(e, out=i)
m.linalg.cholesky(e, out=i)
m.linalg.eig(e, out=(i, i))
m.linalg.eigvals(e, out=i)
m.linalg.svd(e, out=(i, i, i))
m.linalg.solve(e, e, out=i)
m.linalg.cond(e, out=i)
m.linalg.pinv(e, out=i)
m.cholesky_inverse(e, out=i)
m.cholesky_solve(e, e, out=i)
m.triangular_solve(e, e, out=(i, i))
m.add(e, e, out=i)
m.lerp(e, e, 0.5, out=i)
m.mm(e, e, out=i)
m.bmm(e[None], e[None], out=i)
m.addmm(e, e, e, out=i)
m.max(e, 0, out=(i, i))
m.sort(e, out=(i, i))
m.topk(e, 1, out=(i, i))
m.argmax(e, 0, out=i)
m.cummax(e, 0, out=(i, i))
m.logcumsumexp(e, 0, out=i)
m.all(e, 0, out=i)
m.tril(e, out=i)
m.complex(e, e, out=i)
m.norm(e, out=i)
e.int().add_(e)
m.hstack(e)
m.as_strided(e, (1, 1), (2, -1))
m.meshgrid(e[0], indexing="yx")
m.diff(e, prepend=e[0])
m.nansum(e + 0j)
m.linalg.vector_norm(e, 2j)
m.linalg.matrix_norm(e, 2j)
m.histc(e, 3, 2, 1)
"str" in e
e.item()
int(e)
m.manual_seed(1 << 65)
m.chain_matmul()
m.linalg.eig(e.double(), out=(e.cdouble(), i))
m.linalg.eig(e * m.nan)
m.linalg.pinv(e, m.tensor(1j))
m.linalg.pinv(e, atol=m.tensor(1j))
m.linalg.lstsq(e[:1], e[0])
m.linalg.lstsq(e[:1], e)
m.linalg.cond(e, "a norm")
m.linalg.cond(e, 5)
m.linalg.multi_dot([m.tensor(1.0), e])
m.linalg.multi_dot([e, e[None]])
m.chain_matmul(e[0], e)
m.linalg.householder_product(e, e[0].int())
m.ormqr(m.ones(10, 6), m.ones(20), m.ones(10, 6))
m.ormqr(m.ones(6, 6), m.ones(5), m.ones(5, 5))
m.ormqr(m.ones(1, 2, 2), m.ones(2, 2), m.ones(1, 2, 2))
m.ormqr(m.ones(1, 2, 2), m.ones(1, 2), m.ones(2, 2, 2))
m.dot(e[0], e[0].double())
m.vdot(e[0], e[0].double())
m.dot(e, e[0])
m.linalg.multi_dot([e, e.double()])
m.linalg.lstsq(e, e.int())
m.cholesky_inverse(m.zeros(3, 3))
m.einsum("... ...", e)
m.einsum("ai", e[0])
m.einsum("ai...", e[0])
m.einsum("a->..", e[0])
m.einsum("a->aa", e[0])
m.einsum("a->i", e[0])
m.einsum("aa", m.ones(2, 3))
m.einsum("a,a", m.ones(2), m.ones(3))
m.nn.functional.conv2d(m.ones(1, 1, 3, 3).double(), m.ones(1, 1, 1, 1).cfloat())
m.nn.functional.grid_sample(m.ones(5, 5, 5, 5, 5), m.ones(1, 1, 1, 4, 4), align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.ones(1, 1, 1, 2), mode="other", align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.ones(1, 1, 1, 2), padding_mode="other", align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 2, 2), m.ones(1, 1, 1, 2), align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.ones(1, 1, 1, 1, 3), align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.ones(2, 1, 1, 2), align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.ones(1, 1, 1, 3), align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 0, 2), m.ones(1, 1, 1, 2), align_corners=False)
m.nn.functional.grid_sample(m.ones(1, 1, 2, 2, 2), m.ones(1, 1, 1, 1, 3), mode="bicubic", align_corners=False)
m.nn.functional.nll_loss(m.ones(10, 3), m.zeros(10, 2).long())
m.nn.functional.cosine_embedding_loss(m.ones(5, 2), m.ones(5, 2), m.ones(5, 1))
m.nn.functional.cosine_embedding_loss(m.ones(5), m.ones(5), m.ones(5))
m.nn.functional.cosine_embedding_loss(m.ones(5, 2), m.ones(5, 2), m.ones(()))
m.nn.functional.cosine_embedding_loss(m.ones(1, 5), m.ones(1, 6), m.ones(1))
m.nn.Unfold((2, 3))(m.ones(1, 2, 2, 2))
m.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15])(m.ones(2, 16), m.tensor([0, 5, 10]))
m.index_select(m.ones(0, 3), 0, m.tensor([0]))
m.normal(m.zeros(120), m.ones(2, 3, 4, 5))
m.broadcast_tensors(m.ones(2, 3), m.ones(4))
m.add(m.ones(2, 3), m.ones(4))
m.where(m.ones(2, 3) > 0, m.ones(4), 1.0)
m.Size(e[0])
m.nonzero(e, as_tuple=True, out=e.clone())
m.Size([1, 2.0])
m.set_num_threads(2**65)
type("Derived", (m.FloatTensor,), {})
m.linalg.inv(m.zeros(2, 2, 2, 2))
m.normal(0.0, -1.0, (2,))
m.Tensor(e, device="cpu")
m.frombuffer([1], dtype=m.int8)
m.frombuffer(b"", dtype=m.int8)
m.frombuffer(b"abc", dtype=m.int8, offset=3)
m.frombuffer(b"abc", dtype=m.int8, count=5)
m.frombuffer(b"abcde", dtype=m.int32)
m.frombuffer(b"abcdefgh", dtype=m.int32, offset=1)
m.asarray(e, dtype=m.float64, copy=False)
m.complex(e, e.double())
m.complex(e.int(), e)
m.polar(e.int(), e)
m.nn.RNNCell(3, 5)(e, m.ones(1, 5))
m.nn.GRUCell(3, 5)(e, m.ones(1, 5))
m.nn.LSTMCell(3, 5)(e, (m.ones(3, 5), m.ones(1, 5)))
"""


def _text(library: Any, call: str) -> str:
    names = {"m": library, "e": library.eye(3), "i": library.empty(0, dtype=library.int32)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(call, names)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return str(error)
    return ""


def _core(text: str) -> str:
    """What programs look for: the first sentence, without the name of the op before it."""
    first = text.splitlines()[0].split(". ")[0].rstrip(".")
    before, colon, rest = first.partition(": ")
    return rest if colon and " " not in before.replace("torch.", "") else first


def differences() -> Iterator[str]:
    for call in CALLS.strip().splitlines():
        theirs, ours = (_text(library, call) for library in (torch, fg))
        if not ours or _core(theirs) not in ours:
            yield f"{call}\n  {_core(theirs)}\n  {ours}"


def test_errors_have_the_words_of_torch() -> None:
    assert not "\n".join(differences())


@pytest.mark.parametrize("pivot", [-1, 0, 4])
def test_pivots_out_of_range_are_refused(pivot: int) -> None:
    for m in (fg, torch):
        factors, pivots = m.eye(3), m.tensor([1, pivot, 3], dtype=m.int32)
        with pytest.raises(RuntimeError, match="LU"):
            m.lu_unpack(factors, pivots)
        with pytest.raises(RuntimeError, match=r"LU|lu_solve"):
            m.linalg.lu_solve(factors, pivots, factors)


def test_the_table_finds_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "_SAYS", {})
    assert finds(test_errors_have_the_words_of_torch)


OLD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda m, e, b: m.add(e, 2, e),
    "add of a method": lambda m, e, b: e.add(2, e),
    "add in place": lambda m, e, b: e.add_(2, e),
    "addmm": lambda m, e, b: m.addmm(2, e, 3, e, e),
    "addmm of one factor": lambda m, e, b: m.addmm(2, e, e, e),
    "addmm of a method": lambda m, e, b: e.addmm(2, 3, e, e),
    "addmm in place": lambda m, e, b: e.addmm_(2, 3, e + 1, e + 2),
    "addmv": lambda m, e, b: e[0].addmv(2, 3, e, e[0]),
    "addr": lambda m, e, b: e.addr(2, 3, e[0], e[1]),
    "baddbmm": lambda m, e, b: m.baddbmm(2, b, 3, b, b),
    "baddbmm in place": lambda m, e, b: b.baddbmm_(2, b + 1, b + 2),
    "addbmm in place": lambda m, e, b: e.addbmm_(2, 3, b, b),
    "addcmul": lambda m, e, b: e.addcmul(2, e, e),
    "addcdiv in place": lambda m, e, b: e.addcdiv_(2, e + 1, e + 2),
}


@pytest.mark.parametrize("call", OLD)
def test_old_overloads_take_factors_by_their_places(call: str) -> None:
    def given(m: Any) -> Any:
        return OLD[call](m, m.arange(9.0).reshape(3, 3), m.arange(18.0).reshape(2, 3, 3)).tolist()

    with pytest.warns(UserWarning, match="This overload of .* is deprecated"):
        ours = given(fg)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours == given(torch)
