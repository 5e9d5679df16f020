"""What distributions refuse, in PyTorch's words; users' distributions; and distributions made of others."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


@pytest.fixture(autouse=True)
def checked():
    """`torch.compile` switches PyTorch's checks off, for the whole process."""
    torch.distributions.Distribution.set_default_validate_args(True)


REFUSED = """
Normal(0.0, -1.0)
Normal(t([0.0, nan]), 1.0)
Normal(0.0, 1.0).log_prob(t([nan]))
Normal(0.0, 1.0).log_prob(1.0)
Normal(t([0.0, 1.0]), 1.0).log_prob(t([1.0, 2.0, 3.0]))
Normal('a', 1.0)
Uniform(1.0, 0.0)
Uniform(0.0, 1.0).log_prob(t([2.0]))
Exponential(t([-1.0, 1.0]))
Exponential(1.0).log_prob(t([-1.0]))
Bernoulli(1.5)
Bernoulli()
Bernoulli(0.5, 0.1)
Bernoulli(0.5).log_prob(t([0.5]))
Bernoulli(logits=t([nan]))
Binomial(3, t([0.5])).log_prob(t([4.0]))
Binomial(t([2.0, 3.0]), t([0.5, 0.5])).enumerate_support()
Binomial(t([2.0, 3.0]), t([0.5, 0.5])).entropy()
Geometric(0.0)
Poisson(-1.0)
Poisson(1.0).log_prob(t([0.5]))
Categorical(t(0.5))
Categorical(logits=t(0.5))
Categorical(t([-1.0, 2.0]))
Categorical(t([0.5, 0.5])).log_prob(t(2))
OneHotCategorical(t([0.5, 0.5])).log_prob(t([1.0, 1.0]))
OneHotCategorical(t([0.5, 0.5])).log_prob(t([1.0, 0.0, 0.0]))
Multinomial(t([1.0]), t([0.5, 0.5]))
Multinomial(2, t([0.5, 0.5])).log_prob(t([3.0, 0.0]))
Dirichlet(t(1.0))
Dirichlet(t([1.0, -1.0]))
Dirichlet(t([1.0, 1.0])).log_prob(t([0.5, 0.6]))
Beta(1.0, 1.0).log_prob(t([1.5]))
MultivariateNormal(t(0.0), t([[1.0]]))
MultivariateNormal(t([0.0]), t([1.0]))
MultivariateNormal(t([0.0]))
MultivariateNormal(t([0.0]), t([[1.0]]), t([[1.0]]))
MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]]))
MultivariateNormal(t([0.0, 0.0]), scale_tril=t([[1.0, 2.0], [2.0, 1.0]]))
Independent(Normal(0.0, 1.0), 1)
TransformedDistribution(Normal(0.0, 1.0), 3)
TransformedDistribution(Normal(0.0, 1.0), [3])
TransformedDistribution(Normal(0.0, 1.0), transforms.StickBreakingTransform())
MixtureSameFamily(Normal(0.0, 1.0), Normal(t([0.0]), 1.0))
MixtureSameFamily(Categorical(t([0.5, 0.5])), Normal(t([0.0, 1.0, 2.0]), 1.0))
kl_divergence(Cauchy(0.0, 1.0), Bernoulli(0.5))
Normal(0.0, 1.0).enumerate_support()
Bernoulli(0.5).cdf(t([1.0]))
Categorical(t([0.5, 0.5])).rsample()
""".strip().splitlines()


def error(lib, text):
    names = {**vars(lib.distributions), "t": lib.tensor, "nan": float("nan")}
    names |= {name: getattr(lib.distributions, name) for name in lib.distributions.__all__}
    with pytest.raises((ValueError, NotImplementedError, TypeError)) as caught:
        eval(text, names)
    kinds = [k for k in (ValueError, NotImplementedError, TypeError) if isinstance(caught.value, k)]
    return kinds[0], str(caught.value).split("\n  at ")[0]


@pytest.mark.parametrize("text", REFUSED)
def test_errors(text):
    (kind, mine), (other_kind, other) = error(fg, text), error(torch, text)
    assert kind is other_kind
    # PyTorch's texts of some distributions do not have their parameters; ours have.
    kept, _, rest = other.partition("of the distribution")
    name = text.partition("(")[0]
    if rest.startswith(f" {name}()"):
        assert mine.startswith(kept) and mine.endswith(rest.partition("()")[2])
    else:
        assert mine == other


def test_what_pytorch_says_otherwise():
    with pytest.raises(ValueError, match="Expected parameter concentration1"):
        fg.distributions.Beta(-1.0, 1.0)
    with pytest.raises(ValueError, match="expected True or False"):
        fg.distributions.Distribution.set_default_validate_args(None)
    with pytest.raises(TypeError, match="Expected type_p to be a class"):
        fg.distributions.register_kl(3, fg.distributions.Normal)


def test_checks_can_be_left_out():
    assert fg.distributions.Normal(0.0, -1.0, validate_args=False).scale == -1
    fg.distributions.Distribution.set_default_validate_args(False)
    try:
        assert fg.distributions.Uniform(0.0, 1.0).log_prob(fg.tensor([2.0])).item() == -float("inf")
    finally:
        fg.distributions.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="satisfy the constraint"):
        fg.distributions.Normal(0.0, -1.0)


TEXTS = """
Normal(0.0, 1.0)
Normal(t([0.0, 1.0]), 1.0)
Uniform(0.0, 1.0)
Bernoulli(0.5)
Bernoulli(logits=t([0.5, 1.0]))
Categorical(t([0.5, 0.5]))
Gamma(1.0, 2.0)
Independent(Normal(t([0.0, 1.0]), 1.0), 1)
MultivariateNormal(t([0.0, 1.0]), scale_tril=t([[1.0, 0.0], [0.0, 1.0]]))
TransformedDistribution(Normal(0.0, 1.0), [])
MixtureSameFamily(Categorical(t([0.5, 0.5])), Normal(t([0.0, 1.0]), 1.0))
Multinomial(3, t([0.5, 0.5]))
""".strip().splitlines()


def in_names(lib, text):
    names = {name: getattr(lib.distributions, name) for name in lib.distributions.__all__}
    return eval(text, {**names, "t": lib.tensor, "transforms": lib.distributions.transforms})


def shown(lib, text):
    return repr(in_names(lib, text))


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text):
    mine, other = shown(fg, text), shown(torch, text)
    if not text.startswith("M"):  # as above; and PyTorch's have what was asked for since, too
        assert mine == other
    assert mine.startswith(text.partition("(")[0])


PAIR = "Normal(t([0.0, 1.0]), 1.0)"
MADE = {
    "independent": "Independent(Normal(t([[0.0, 1.0]]), t([[1.0, 2.0]])), 1)",
    "of a normal": f"TransformedDistribution({PAIR}, [transforms.ExpTransform()])",
    "going down": f"TransformedDistribution({PAIR}, [transforms.AffineTransform(1.0, -2.0)])",
    "of two": (
        f"TransformedDistribution({PAIR}, "
        "[transforms.AffineTransform(1.0, 2.0), transforms.SigmoidTransform()])"
    ),
    "wider": "TransformedDistribution(Normal(0.0, 1.0), [transforms.AffineTransform(t([1.0, 2.0]), 2.0)])",
    "of events": f"TransformedDistribution({PAIR}, [transforms.StickBreakingTransform()])",
    "squashed": f"Independent(TransformedDistribution({PAIR}, [transforms.TanhTransform()]), 1)",
    "mixture": "MixtureSameFamily(Categorical(t([0.3, 0.7])), Normal(t([0.0, 1.0]), t([1.0, 2.0])))",
    "mixture of vectors": (
        "MixtureSameFamily(Categorical(t([0.3, 0.7])), "
        "Independent(Normal(t([[0.0, 1.0], [2.0, 3.0]]), 1.0), 1))"
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_distributions_of_others(name):
    inside = {"of events": [0.2, 0.3, 0.5], "of a normal": [0.5, 2.0], "mixture": [0.3, 0.4, 0.5]}
    values = inside.get(name, [0.3, 0.6])
    found = []
    for lib in (fg, torch):
        made = in_names(lib, MADE[name])
        value = lib.tensor(values)
        numbers = [made.log_prob(value), made.expand((3, *made.batch_shape)).log_prob(value)]
        for ask in (
            lambda m=made: m.mean,
            lambda m=made: m.variance,
            lambda m=made: m.entropy(),
            lambda m=made, v=value: m.cdf(v),
            lambda m=made, v=value: m.icdf(v),
            lambda m=made, d=lib.distributions: d.kl_divergence(m, m),
        ):
            try:
                numbers.append(ask())
            except NotImplementedError:
                numbers.append(lib.tensor(float("nan")))
        shapes = [tuple(made.batch_shape), tuple(made.event_shape), tuple(made.sample((4,)).shape)]
        found.append((shapes, [n.numpy() for n in numbers], made.has_rsample, made.support.event_dim))
    mine, other = found
    assert (mine[0], mine[2:]) == (other[0], other[2:])
    for one, two in zip(mine[1], other[1], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lib", [fg, torch], ids=["fusegrad", "torch"])
def test_users_distributions(lib):
    D = lib.distributions

    class Doubled(D.Normal):
        def __init__(self, loc):
            super().__init__(2 * loc, lib.ones(2))

    assert Doubled(lib.ones(2)).mean.tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="Subclass Doubled of Normal that defines a custom"):
        Doubled(lib.ones(2)).expand((3, 2))

    class Same(D.Normal):
        pass

    wide = Same(lib.ones(2), 1.0).expand((3, 2))
    assert type(wide) is Same and tuple(wide.batch_shape) == (3, 2)
    assert D.kl_divergence(Same(lib.ones(2), 1.0), D.Normal(0.0, 1.0)).tolist() == [0.5, 0.5]

    class Delta(D.Distribution):
        arg_constraints = {"place": D.constraints.real}  # noqa: RUF012
        support = D.constraints.real

        def __init__(self, place, validate_args=None):
            self.place = place
            super().__init__(place.shape, validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Delta, _instance)
            new.place = self.place.expand(batch_shape)
            super(Delta, new).__init__(batch_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

    assert repr(Delta(lib.tensor(1.0))) == "Delta(place: 1.0)"
    assert tuple(Delta(lib.ones(2)).expand((3, 2)).batch_shape) == (3, 2)
    with pytest.raises(ValueError, match="Expected parameter place"):
        Delta(lib.tensor(float("nan")))

    @D.register_kl(Delta, D.Normal)
    def divergence(p, q):
        return -q.log_prob(p.place)

    assert D.kl_divergence(Delta(lib.tensor(0.0)), D.Normal(0.0, 1.0)).item() > 0

    class Bare(D.Distribution):
        pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Bare()
    assert "does not define `arg_constraints`" in str(caught[0].message)
