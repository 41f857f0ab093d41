# Every target sets up what it needs in .venv, once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint bench clean
.DELETE_ON_ERROR:

demo: .venv/.ready
	$(BIN)/counterrank demo

test: .venv/.ready-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

lint: .venv/.ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.ready-bench
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.ready: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

.venv/.ready-%: .venv/.ready
	$(PIP) --editable '.[$*]'
	touch $@
