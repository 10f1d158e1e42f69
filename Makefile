# Everything runs in a virtual environment of its own, one for each Python: `make test PYTHON=python3.13`.
PYTHON ?= python3
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
BIN := $(VENV)/bin

.PHONY: run test test-slow lint format figures results docs-tables clean

run: $(VENV)/installed  ## the main job: anchored against sequential anchored ensembles on the energy data
	$(BIN)/python -m anchorwalk demo

# Most of the suite's time is compilation: it goes without XLA's optimisations here, and with them in test-slow.
test: $(VENV)/developed lint  ## everything that must hold, in a few minutes
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(VENV)/developed  ## what takes longer, and statistics and contracts again as users' programs are compiled
	$(BIN)/python -m pytest -n 2 -m "slow or not slow" tests/statistics tests/contracts

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

figures: $(VENV)/installed  ## the figures of the documentation
	$(BIN)/python docs/figures/gap.py

GAPS := relative_compactness surface_area wall_area roof_area overall_height orientation glazing_area glazing_area_distribution
results: $(VENV)/installed  ## the records behind the figures in README and docs
	for gap in $(GAPS); do \
	  $(BIN)/python -m anchorwalk demo --gap $$gap --out runs/results/$$gap && \
	  cp runs/results/$$gap/scores.json results/energy-$$gap.json || exit 1; \
	done

docs-tables: $(VENV)/installed  ## the tables of the documentation, from the records
	$(BIN)/python docs/energy_table.py

clean:
	rm -rf .venv-*
