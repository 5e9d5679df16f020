"""Runs 17 libraries made for PyTorch, with PyTorch and with fusegrad; they are installed, and not ours.

    cd tests; python -m libraries --make          # each library into a venv of its own, without torch
    cd tests; python -m libraries                 # all of them, and docs/libraries.md
    cd tests; python -m libraries timm peft

`programs` has a program for each, which builds models of a few thousand numbers. They are run by
`python -m fusegrad.torch`; nothing of a library is changed.
"""
