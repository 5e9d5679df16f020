"""Random numbers: generators, and what is drawn from them. Laid out as `torch.random`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.random.classes import multinomial
from fusegrad.eager.random.drawing import bernoulli_, normal_, uniform_
from fusegrad.eager.random.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from fusegrad.eager.random.random import (
    bernoulli,
    binomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)

__all__ = [*gather("fusegrad.random", globals()), "default_generator"]
