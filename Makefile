# On a fresh machine with Python 3.11 or later and its venv, `make demo` and `make test` do all their set-up.
# A stamp in .venv says which extras are installed and is made anew when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
# How many processes run the tests.
WORKERS ?= 2

.PHONY: help demo test lint types stubs bench clean

help:
	@echo "make demo    train on handwritten digits, compare eager and compiled; leaves out/"
	@echo "make test    ruff, mypy and all tests"
	@echo "make lint    ruff alone        make types   mypy alone"
	@echo "make stubs   what type checkers and editors read, written anew after a change of public names"
	@echo "make bench   the benchmarks, beside torch and JAX"
	@echo "make clean   remove .venv, build/ and out/"

demo: .venv/demo
	$(BIN)/python examples/digits.py

test: lint types
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not see through the mapping of folders to packages that an editable install makes,
# so it looks at the packages through links that lie as they do when installed.
types: .venv/test
	rm -rf build/types
	mkdir -p build/types/fusegrad
	ln -s $(CURDIR)/fusegrad/* $(CURDIR)/eager $(CURDIR)/tracer $(CURDIR)/compiler build/types/fusegrad/
	MYPYPATH=build/types $(BIN)/mypy -p fusegrad

stubs: .venv/test
	$(BIN)/python tools/write_stubs.py

bench: .venv/bench
	$(BIN)/python benchmarks/import_time.py --json benchmarks/results/import_time.json
	$(BIN)/python benchmarks/digits_loss.py --json benchmarks/results/digits_loss.json
	$(BIN)/python benchmarks/small_tensors.py --json benchmarks/results/small_tensors.json
	$(BIN)/python benchmarks/memory.py --json benchmarks/results/memory.json
	$(BIN)/python benchmarks/guards.py --json benchmarks/results/guards.json
	$(BIN)/fusegrad bench --json benchmarks/results/suite.json

.venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq -e ".[$*]"
	touch $@

clean:
	rm -rf .venv build out
