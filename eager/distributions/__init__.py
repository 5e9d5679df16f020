"""Distributions of random numbers: samples, densities, moments, divergences. As `torch.distributions`.

In: parameters (numbers or tensors). Out: an object with a `batch_shape` of independent draws, each of an
`event_shape`. Everything is made of public ops, so that densities have gradients and are compiled as users'
own code is; a run under `jit` follows these modules as it follows layers (`tracer/observe/purity.py`).
"""
