"""Artefacts: what was compiled, as bytes, and the folder in which processes leave it for later ones."""
