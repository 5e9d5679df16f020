"""PyTorch's own samples of its ops (`op_db`), run through fusegrad.

    python -m op_database                      what fails, of all ops that fusegrad has, and why
    python -m op_database --only add linalg.   some ops, by the beginning of their names
    python -m op_database --markdown FILE      write the page that docs/op_database.md keeps

Run it in `tests/`. An op of the database is covered when fusegrad has something under its name.
"""
