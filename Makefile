# Every target sets up what it needs in .venv, once.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= --constraint constraints.txt
PIP := $(BIN)/pip install --quiet --disable-pip-version-check $(CONSTRAINTS)
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --durations=30
# markers of tests that take long or start other programs; see CONTRIBUTING.md
MARKED := statistical or cluster or process or browser
# whose Python must fit into the width of the site
PAGES := CONTRIBUTING.md $(wildcard docs/*.md docs/*/*.md docs/*/*/*.md)

.PHONY: demo test test-all test-lowest coverage lint bench docs docs-serve release-check clean
.DELETE_ON_ERROR:

demo: $(VENV)/.ready
	$(BIN)/counterrank demo

# all layers, and representatives of what is marked; TESTS="tests/data tests/logs" for a part of it
test: $(VENV)/.ready-test
	$(BIN)/python -m tests.support.compile_kernels
	$(PYTEST) -m "not ($(MARKED)) or representative" $(TESTS)

# what `make test` leaves out, the documentation site among it
test-all: $(VENV)/.ready-test $(VENV)/.ready-docs
	$(BIN)/python -m tests.support.compile_kernels
	$(PYTEST) -m "($(MARKED)) and not representative" tests

# `make test` on the oldest versions that pyproject.toml allows
test-lowest: $(VENV)-lowest/constraints.txt
	NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)-lowest/kernels \
	$(MAKE) test VENV=$(VENV)-lowest CONSTRAINTS="$(CONSTRAINTS) --constraint $<"

# lines that the tests run; compiled kernels are not seen
coverage: $(VENV)/.ready-coverage
	rm -f .coverage
	$(BIN)/python -m tests.support.compile_kernels
	$(PYTEST) --cov=counterrank --cov-report= -m "not ($(MARKED)) or representative"
	$(PYTEST) --cov=counterrank --cov-append --cov-report=term -m "($(MARKED)) and not representative" tests

lint: $(VENV)/.ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --isolated --line-length 74 $(PAGES)
	$(BIN)/mypy

bench: $(VENV)/.ready-bench
	$(BIN)/python -m benchmarks $(ARGS)

# the documentation site, in docs/_build/html; warnings are errors
docs: $(VENV)/.ready-docs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs docs/_build/html

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html $(or $(PORT),8000)

# builds wheel and sdist in dist, and uses them in clean environments; ARGS="--tag v0.2.0"
release-check: $(VENV)/.ready-release
	$(BIN)/python -m tests.support.release_check $(ARGS)

clean:
	rm -rf docs/_build .venv .venv-lowest build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/.ready-%: $(VENV)/.ready
	$(PIP) --editable '.[$*]'
	touch $@

$(VENV)-lowest/constraints.txt: pyproject.toml tests/support/lowest.py
	mkdir -p $(@D)
	$(PYTHON) tests/support/lowest.py test > $@
