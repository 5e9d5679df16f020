"""A tensor of a derived class in each place of a call: of which class the results are, beside PyTorch."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops.overrides import protocol

# y, x, i and z are plain; w, p, s, m, v, j and q of the class.
EXPRESSIONS = (
    """
x[p];x[[p]];x[p,1:];x[m];x[s];x[s:];x[:,p];x[(p,p)];x[[p,p]];x[None,p];x[(p,[0,1])];x[:,[s,s]];x[s,s];x[...,p]
put(x,0,v);put(x,p,1);put(x,m,0.);put(x,(p,0),2.);put(x,[p],2.);put(x,(slice(s,None),0),2.);range(3)[s];[1,2,3][s]
y+w;y-w;y*w;y/w;y//w;y%w;y**w;y@w;y==w;y!=w;y<w;y<=w;y>w;y>=w;i&j;i|j;i^j;i<<j;i>>j;w in y
o.iadd(y,w);o.isub(y,w);o.imul(y,w);o.itruediv(y,w);o.ifloordiv(y,w);o.imod(y,w);o.ipow(y,w);o.imatmul(y,w)
o.iand(i,j);o.ior(i,j);o.ixor(i,j);o.ilshift(i,j);o.irshift(i,j);y.__eq__(w);y.__rsub__(w);y.__rpow__(w)
y.__rmatmul__(w);y.__rtruediv__(w);y.__rfloordiv__(w);y.__rmod__(w);i.__rlshift__(j);i.__rand__(j)
y.add(w);y.where(y>1,w);y.index_select(0,p);y.gather(0,q);y.masked_fill(y>1,s.float());y.index_put((p,),w[0])
y.index_put([p],w[0]);y.index_put_((p,),w[0]);y.index_add(0,p,w);y.index_fill(0,p,s.float());y.take(p)
t.where(y>1,y,w);t.cat([y,w]);t.cat((y,w));t.stack([y,w]);t.broadcast_tensors(y,w);t.meshgrid([y[0],w[0]])
t.einsum('ij,jk->ik',y,w);t.tensordot(y,w,([0],[1]));t.block_diag(y,w);t.cartesian_prod(y[0],w[0]);t.hstack([y,w])
t.atleast_1d([y,w]);t.atleast_1d(y,w);t.column_stack((y,w));t.linalg.multi_dot([y,w]);t.addmm(y,y,w);t.addmm(w,y,y)
t.clamp(y,w,None);t.clamp(y,max=w);y.clamp(min=w);t.lerp(y,y,w);t.addcmul(y,y,w);t.addcmul(y,w,y,value=2)
t.searchsorted(y[0],w);t.bucketize(y,w[0]);t.isin(y,w);t.allclose(y,w);t.equal(y,w);y.equal(w);t.isclose(y,w)
F.linear(y,w);F.linear(y,y,w[0]);F.embedding(p,y);F.cross_entropy(y,p);F.mse_loss(y,w);F.layer_norm(y,(2,),w[0],w[0])
F.one_hot(p);F.conv1d(y[None],w[None]);F.bilinear(y,w,w[None].clone());F.batch_norm(y,w[0],w[0].abs()+1);F.pad(w,(1,1))
F.scaled_dot_product_attention(y[None],w[None],y[None]);F.dropout(w,0.);F.cosine_similarity(y,w)
t.add(y,y,out=w);t.exp(y,out=w);t.add(input=y,other=w);t.as_tensor(w);t.is_same_size(y,w);y.type_as(w);y.to(w)
y.view_as(w);y.expand_as(w);y.reshape_as(w);y.copy_(w);y.resize_as_(w);t.repeat_interleave(y,p,dim=0)
y.repeat_interleave(p,0);t.tensor_split(y,p);y.narrow(0,s,1);y.expand(s+1,2,2);y.reshape(s,-1);y.scatter(0,q,w)
y.scatter_add(0,q,w);y.take_along_dim(q,0);y.put_(p,w[0]);y.dist(w);t.cdist(y,w);y.masked_select(w>1);y.masked_scatter(w>1,w)
t.bernoulli(w*0);t.normal(y*0,w*0);t.nn.utils.parameters_to_vector([y,w]);t.nn.utils.rnn.pad_sequence([y,w])
t.distributions.Normal(y,y.abs()+1).log_prob(w)
""".replace("\n", ";")
    .strip(";")
    .split(";")
)


def kinds(lib: Any, expression: str) -> list[str]:
    """Of which classes the tensors are that an expression gives, and what else it gives."""
    kind = type("Derived", (lib.Tensor,), {})
    square = lib.arange(4.0).reshape(2, 2) + 1
    plain = {"x": lib.arange(12.0).reshape(3, 4), "y": square.clone(), "i": lib.ones(2, 2, dtype=lib.int64)}
    derived = {
        "p": lib.tensor([0, 1]),
        "s": lib.tensor(1),
        "m": plain["x"] > 3,
        "v": lib.zeros(4),
        "w": square.clone(),
        "j": lib.ones(2, 2, dtype=lib.int64),
        "q": lib.zeros(2, 2, dtype=lib.int64),
    }
    names = {"t": lib, "F": lib.nn.functional, "o": operator, "put": operator.setitem, **plain}
    names |= {name: value.as_subclass(kind) for name, value in derived.items()}
    return [*_told(lib, eval(expression, names))]


def _told(lib: Any, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _told(lib, part)
    else:
        yield type(value).__name__


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_are_of_the_class_as_pytorchs(expression: str) -> None:
    assert kinds(fg, expression) == kinds(torch, expression)


def test_an_argument_that_is_not_asked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_items", lambda values: iter(()))
    assert kinds(fg, "x[p,1:]") == ["Tensor"] != kinds(torch, "x[p,1:]")
