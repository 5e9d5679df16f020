"""PyTorch's own test files, run with fusegrad in torch's place: `python -m peers CHECKOUT`.

`fusegrad.torch` makes the modules named torch, and `checkout` has PyTorch's own `torch.testing` come from
the checkout as it is; `missing` is what fusegrad lacks, `parts` the little that PyTorch's test tools ask of
its insides. `worker` runs one file in a process (`functions` has the tests that pytest would
collect), `runs` starts workers, `outcomes` says what became of each test, and `table` writes
docs/pytorch_tests.md. What we decline, and the sentence that users read about it, is in `declined.toml`.
"""
