# On a fresh machine with Python 3.11 or later and its venv, `make demo` and `make test` do all their set-up.
# A stamp in the venv says which extras are installed and is made anew when pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The extra with torch, which many tests ask for the right answer. Without it (`make suite ORACLE=`) those are skipped.
ORACLE ?= ,oracle
# How many processes run the tests, and which tests; all if nothing is said.
WORKERS ?= 2
TESTS ?=
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)
# The Pythons that fusegrad is for.
PYTHONS := 3.11 3.12 3.13

.PHONY: help demo test suite without-core red-zones test-all $(PYTHONS:%=test-%) coverage lint types stubs hooks bench clean

help:
	@echo "make demo          train on handwritten digits, compare eager and compiled; leaves out/"
	@echo "make test          ruff, mypy and all tests"
	@echo "make suite         all tests, or TESTS=tests/eager"
	@echo "make without-core  all tests, or TESTS=..., with the native core switched off"
	@echo "make red-zones     all tests, or TESTS=..., with bytes around each array that nobody may write"
	@echo "make test-all      make test, without-core, and the tests on each Python that is here"
	@echo "make coverage      all tests, or TESTS=..., and which lines they run; a page in build/coverage/html"
	@echo "make lint          ruff alone          make types   mypy alone"
	@echo "make stubs         what type checkers and editors read, written anew after a change of public names"
	@echo "make hooks         have git check each commit with both"
	@echo "make bench         the benchmarks, beside torch and JAX"
	@echo "make clean         remove all venvs, build/ and out/"

demo: $(VENV)/demo
	$(BIN)/python examples/digits.py

test: lint types suite

suite: $(VENV)/test
	$(PYTEST)

without-core: $(VENV)/test
	FUSEGRAD_NATIVE_CORE=0 $(PYTEST)

red-zones: $(VENV)/test
	FUSEGRAD_RED_ZONES=1 $(PYTEST)

test-all: test without-core $(PYTHONS:%=test-%)

# A Python counts as here if it is on the PATH or pyenv has it. That of $(VENV) has had its turn in `make test`.
# torch is taken from the default Python alone: for others its usual build on Linux brings gigabytes of CUDA.
$(PYTHONS:%=test-%): test-%: $(VENV)/test
	@if $(BIN)/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$*')"; then \
	  echo "Python $* is that of $(VENV)"; exit; \
	fi; \
	for python in python$* $$(ls -d $(HOME)/.pyenv/versions/$*.*/bin/python 2>/dev/null); do \
	  if $$python -c "" 2>/dev/null; then \
	    exec $(MAKE) --no-print-directory suite VENV=.venv-$* PYTHON=$$python ORACLE=; \
	  fi; \
	done; \
	echo "no Python $* here: left out"

coverage: $(VENV)/test
	mkdir -p build/coverage
	$(PYTEST) --cov --cov-report=html --cov-report=term:skip-covered

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not see through the mapping of folders to packages that an editable install makes,
# so it looks at the packages through links that lie as they do when installed.
types: $(VENV)/test
	rm -rf build/types
	mkdir -p build/types/fusegrad
	ln -s $(CURDIR)/fusegrad/* $(CURDIR)/eager $(CURDIR)/tracer $(CURDIR)/compiler build/types/fusegrad/
	MYPYPATH=build/types $(BIN)/mypy -p fusegrad

stubs: $(VENV)/test
	$(BIN)/python tools/write_stubs.py

hooks: $(VENV)/test
	$(BIN)/pre-commit install

bench: $(VENV)/bench
	$(BIN)/python benchmarks/import_time.py --json benchmarks/results/import_time.json
	$(BIN)/python benchmarks/digits_loss.py --json benchmarks/results/digits_loss.json
	$(BIN)/python benchmarks/small_tensors.py --json benchmarks/results/small_tensors.json
	$(BIN)/python benchmarks/eager_ops.py --json benchmarks/results/eager_ops.json
	$(BIN)/python benchmarks/memory.py --json benchmarks/results/memory.json
	$(BIN)/python benchmarks/guards.py --json benchmarks/results/guards.json
	$(BIN)/fusegrad bench --json benchmarks/results/suite.json

$(VENV)/test: EXTRAS = test$(ORACLE)
$(VENV)/demo $(VENV)/bench: EXTRAS = $(@F)
$(VENV)/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq -e ".[$(EXTRAS)]"
	touch $@

clean:
	rm -rf .venv .venv-* build out
