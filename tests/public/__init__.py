"""Runs public PyTorch scripts, which are fetched and not part of fusegrad, with PyTorch and with fusegrad.

    git clone https://github.com/OWNER/NAME FOLDER/OWNER+NAME   # each repository of scripts.toml
    cd tests; python -m public FOLDER                           # all scripts; writes docs/programs.md
    cd tests; python -m public FOLDER -k GAN

Nothing of a script is changed; of its data and of what it takes from elsewhere only what `stand_ins` holds.
"""
