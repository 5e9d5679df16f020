"""Small programs written as people publish them for PyTorch, run under torch and under fusegrad.

A program is a file in one of the folders, whose `steps()` gives a step of training and, for the number of a
step, its arguments. A step gives its losses. Inputs and parameters come from NumPy (`common`); where a
program draws random numbers in a step, `DRAWS` says so, and its losses are another library's only in kind.

`strangers` has steps in the manner of repositories that `strangers.toml` names, with the rule by which these
were chosen.

    PYTHONPATH=tests:tests/helpers python -m programs   # which steps are replayed, and how long they take
"""
