"""Jitted functions that make and ask distributions replay: their Python is not entered again."""

from __future__ import annotations

import pytest
from jit_checks import leaf, same, sealed

import fusegrad as fg

D = fg.distributions
OUTSIDE = D.Normal(fg.zeros(3), 2.0)


def of_line(make):
    return lambda w, x: -make(w, fg.nn.functional.softplus(w) + 0.5).log_prob(x).mean()


# A loss of a weight of 3 and of data of 4 x 3; more than one where a way of asking is another.
LOSSES = {
    "normal": of_line(D.Normal),
    "laplace": of_line(D.Laplace),
    "cauchy": of_line(D.Cauchy),
    "gumbel": of_line(D.Gumbel),
    "student": lambda w, x: -D.StudentT(w.exp(), w, 1.0).log_prob(x).mean(),
    "exponential": lambda w, x: -D.Exponential(w.exp()).log_prob(x.exp()).mean(),
    "gamma": lambda w, x: -D.Gamma(w.exp(), 1.0).log_prob(x.exp()).mean(),
    "beta": lambda w, x: -D.Beta(w.exp(), 1.0).log_prob(x.sigmoid()).mean(),
    "dirichlet": lambda w, x: -D.Dirichlet(w.exp()).log_prob(x.softmax(-1)).mean(),
    "bernoulli": lambda w, x: -D.Bernoulli(logits=w).log_prob((x > 0).float()).mean(),
    "binomial": lambda w, x: -D.Binomial(4, logits=w).log_prob((x > 0).float() * 3).mean(),
    "poisson": lambda w, x: -D.Poisson(w.exp()).log_prob((x > 0).float() * 3).mean(),
    "categorical": lambda w, x: -D.Categorical(logits=w).log_prob(x.argmax(-1)).mean(),
    "one hot": lambda w, x: (
        -D.OneHotCategorical(logits=w).log_prob(fg.nn.functional.one_hot(x.argmax(-1), 3).float()).mean()
    ),
    "normal vectors": lambda w, x: -D.MultivariateNormal(w, scale_tril=fg.eye(3)).log_prob(x).mean(),
    "independent": lambda w, x: -D.Independent(D.Normal(w, fg.ones(3)), 1).log_prob(x).mean(),
    "log normal": lambda w, x: -D.LogNormal(w, 1.0).log_prob(x.exp()).mean(),
    "squashed": lambda w, x: (
        -D.TransformedDistribution(D.Normal(w, 1.0), [D.transforms.TanhTransform()])
        .log_prob(x.tanh() * 0.9)
        .mean()
    ),
    "mixture": lambda w, x: (
        -D.MixtureSameFamily(D.Categorical(logits=w), D.Normal(w, fg.ones(3))).log_prob(x).mean()
    ),
    "divergence": lambda w, x: D.kl_divergence(D.Normal(w, 1.0), D.Normal(x, 2.0)).mean(),
    "entropy": lambda w, x: D.Categorical(logits=w).entropy() + x.mean(),
    "of outside": lambda w, x: OUTSIDE.log_prob(w + x).mean(),
    "draws": lambda w, x: (D.Normal(w, 1.0).rsample((2,)) * x.sum()).mean(),
    "gamma draws": lambda w, x: (D.Gamma(w.exp(), 1.0).rsample((2,)) * x.sum()).mean(),
    "relaxed draws": lambda w, x: (
        D.RelaxedOneHotCategorical(fg.tensor(0.5), logits=w).rsample((2,)) * x.mean(0)
    ).sum(),
    "beta draws": lambda w, x: (D.Beta(w.exp(), 1.0).rsample((2,)) * x.mean()).mean(),
    "classes drawn": lambda w, x: (w * D.Categorical(logits=x).sample().float().mean()).mean(),
    "bits drawn": lambda w, x: (w * D.Bernoulli(logits=x).sample().mean()).mean(),
    "policy": lambda w, x: -(D.Categorical(logits=x * w).log_prob(x.argmax(-1)) * x.mean(-1)).mean(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_replays(name):
    function = LOSSES[name]
    jitted = fg.jit(function, require="replay")
    for call in range(4):
        if call == 2:
            sealed(jitted)
        x = leaf(4, 3, seed=call).detach()
        found = []
        for run in (jitted, function):
            fg.manual_seed(call)
            w = leaf(3, seed=9)
            loss = run(w, x)
            loss.backward()
            found.append((loss, w.grad))
        for mine, eager in zip(*found, strict=True):
            same(mine, eager)
    assert jitted.stats.compiled_calls == 3 and jitted.stats.guard_failures == 0


def test_a_replay_refuses_what_eager_refuses():
    """Checks of values are guards: where one fails, the body runs, and raises."""

    @fg.jit
    def loss(scale, x):
        return D.Normal(0.0, scale).log_prob(x).mean()

    for _ in range(3):
        loss(fg.ones(2), fg.ones(2))
    assert loss.stats.compiled_calls == 2
    for scale, x in ((-fg.ones(2), fg.ones(2)), (fg.ones(2), fg.full((2,), float("nan")))):
        with pytest.raises(ValueError, match="found invalid values"):
            loss(scale, x)


def test_a_step_of_training_replays():
    model = fg.nn.Linear(3, 2)
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)

    @fg.jit(require="replay")
    def step(x, actions, returns):
        optimizer.zero_grad()
        policy = D.Categorical(logits=model(x))
        loss = -(policy.log_prob(actions) * returns).mean() - 0.01 * policy.entropy().mean()
        loss.backward()
        optimizer.step()
        return loss

    x, actions, returns = fg.randn(8, 3), fg.randint(0, 2, (8,)), fg.randn(8)
    first = step(x, actions, returns)
    step(x, actions, returns)
    sealed(step)
    losses = [step(x, actions, returns).item() for _ in range(5)]
    assert losses[-1] < first.item() and step.stats.compiled_calls == 6


def test_another_distribution_is_noticed():
    settings = {"prior": D.Normal(fg.zeros(2), 1.0)}

    @fg.jit
    def density(x):
        return settings["prior"].log_prob(x).sum()

    x = fg.ones(2)
    for _ in range(3):
        before = density(x)
    settings["prior"] = D.Normal(fg.ones(2), 1.0)
    assert density(x) > before
    settings["prior"].loc = fg.full((2,), 5.0)
    assert density(x) < before
