# Everything runs in a virtual environment of its own, one for each Python: `make test PYTHON=python3.13`.
PYTHON ?= python3
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
BIN := $(VENV)/bin

.PHONY: run test test-slow lint format clean

run: $(VENV)/installed  ## the main job: anchored against sequential anchored ensembles on the energy data
	$(BIN)/python -m anchorwalk demo

test: $(VENV)/developed lint  ## everything that must hold, in a few minutes
	$(BIN)/python -m pytest

test-slow: $(VENV)/developed  ## the checks that take longer
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/developed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.exit("anchorwalk needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

clean:
	rm -rf .venv-*
