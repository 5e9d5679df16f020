"""pyro: variational inference whose guide draws nothing, densities, and Hamiltonian Monte Carlo."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value

from libraries.case import Case, numbers


def regression(x: torch.Tensor, y: torch.Tensor) -> None:
    weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    noise = pyro.sample("noise", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ weight, noise), obs=y)


def svi() -> Case:
    pyro.clear_param_store()
    x, y = numbers(16, 3), numbers(16, seed=1)
    # Without values it begins with what it draws, which is not PyTorch's.
    begin = init_to_value(values={"weight": numbers(3, seed=2), "noise": torch.tensor(0.7)})
    guide = AutoDelta(regression, init_loc_fn=begin)
    inference = SVI(regression, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    return Case(step=lambda: torch.tensor(inference.step(x, y)))


def densities() -> Case:
    def values() -> dict[str, torch.Tensor]:
        x, y = numbers(16, 3), numbers(16, seed=1)
        known = {"weight": numbers(3, seed=2), "noise": torch.tensor(0.7)}
        trace = pyro.poutine.trace(pyro.poutine.condition(regression, data=known)).get_trace(x, y)
        trace.compute_log_prob()
        return {"log density": trace.log_prob_sum(), "of y": trace.nodes["y"]["log_prob"]}

    return Case(values=values)


def hmc() -> Case:
    def values() -> dict[str, int]:
        pyro.set_rng_seed(0)
        chain = MCMC(
            HMC(regression, step_size=0.05, num_steps=3), num_samples=5, warmup_steps=2, disable_progbar=True
        )
        chain.run(numbers(16, 3), numbers(16, seed=1))
        drawn = chain.get_samples()["weight"]
        # What is drawn is not PyTorch's.
        return {"so many": drawn.shape[0], "numbers": int(torch.isfinite(drawn).all())}

    return Case(values=values)


CASES = {"SVI": svi, "densities": densities, "HMC": hmc}
