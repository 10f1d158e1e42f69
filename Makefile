# Everything runs in a virtual environment of its own, one for each Python: `make test PYTHON=python3.13`.
PYTHON ?= python3
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
BIN := $(VENV)/bin

.PHONY: run test test-slow test-versions test-newest test-lowest test-resolved lint format lock dist tagged smoke figures results docs docs-tables references benchmark study sequential methods optimizers imdb bench scale sizes versions comparison comparison-uci defaults clean

run: $(VENV)/installed  ## the main job: anchored against sequential anchored ensembles on the energy data
	$(BIN)/python -m anchorwalk demo

# Most of the suite's time is compilation: it goes without XLA's optimisations here, and with them in test-slow.
test: $(VENV)/developed lint  ## everything that must hold, in a few minutes
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

COMPILED := tests/statistics tests/walks/test_contract.py tests/run/runners/test_contract.py tests/run/store/test_contract.py
test-slow: $(VENV)/developed  ## what takes longer, and statistics and contracts again as users' programs are compiled
	$(BIN)/python -m pytest -n 2 -m "slow or not slow" $(COMPILED)
	$(BIN)/python -m pytest -n 2 -m slow $(addprefix --ignore ,$(COMPILED))

# Both ends of what pyproject.toml allows. TESTS=tests/run/store runs a part.
NEWEST ?= python3.13
LOWEST ?= python3.11
test-versions: test-newest test-lowest  ## the whole suite with the newest versions of everything, and with the lowest that pyproject.toml allows
test-newest:
	$(MAKE) test-resolved PYTHON=$(NEWEST) VENV=.venv-newest RESOLUTION=highest
test-lowest:
	$(MAKE) test-resolved PYTHON=$(LOWEST) VENV=.venv-lowest RESOLUTION=lowest-direct

test-resolved: $(VENV)/created
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --upgrade --python $(BIN)/python --resolution $(RESOLUTION) --editable '.[all]' --group dev
	$(BIN)/python -c 'import importlib.metadata as m; print(*(f"{n} {m.version(n)}" for n in ("jax", "numpy", "optax", "scikit-learn")), sep=", ")'
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(TESTS)

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/developed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# PIP_CONSTRAINT=constraints.txt make test installs these versions.
lock: $(VENV)/created  ## constraints.txt: the newest versions of all that development needs, for every Python
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra all --group dev \
	  --no-annotate --no-header --no-emit-index-url --no-emit-find-links pyproject.toml --output-file constraints.txt

dist: $(VENV)/created  ## wheel and sdist in dist/, under 5 MB each, installed and tried on the lowest and the newest Python
	$(BIN)/python -m pip install --quiet build
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python tools/try_dist.py $(LOWEST) $(NEWEST)

tagged: $(VENV)/created  ## whether TAG names the version in pyproject.toml, which a release needs
	$(BIN)/python -c 'import sys, tomllib; v = tomllib.load(open("pyproject.toml", "rb"))["project"]["version"]; sys.exit("$(TAG)" != f"v{v}" and f"the tag $(TAG) is not v{v}")'

smoke: $(VENV)/installed  ## the benchmark's commands, made small; under a minute
	rm -rf runs/smoke
	$(BIN)/python -m anchorwalk benchmark run uci_gap --method ae --method sae --budget 200 --split 5 --results runs/smoke --quiet
	$(BIN)/python -m anchorwalk benchmark table --results runs/smoke --out runs/smoke

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
	$(BIN)/python tools/figure_gap.py
	$(BIN)/python tools/figure_benchmark.py
	$(BIN)/python tools/figure_closer.py
	$(BIN)/python tools/figure_paper_plans.py
	$(BIN)/python tools/figure_methods.py
	$(BIN)/python -m anchorwalk benchmark losses uci_gap --out docs/figures/losses.png

docs: $(VENV)/developed  ## the documentation as a site, docs/_build/html/index.html; runs the tutorials, a few minutes
	$(BIN)/python -m sphinx -b html -W --keep-going -d docs/_build/trees docs docs/_build/html

GAPS := relative_compactness surface_area wall_area roof_area overall_height orientation glazing_area glazing_area_distribution
results: $(VENV)/installed  ## the records behind the figures in README and docs
	for gap in $(GAPS); do \
	  $(BIN)/python -m anchorwalk demo --gap $$gap --out runs/results/$$gap && \
	  $(BIN)/python tools/add_record.py runs/results/$$gap/scores.json $$gap results/energy.jsonl || exit 1; \
	done

docs-tables: $(VENV)/installed  ## the tables of the documentation, from the records
	$(BIN)/python tools/pages.py
	$(BIN)/python tools/energy_page.py
	$(BIN)/python tools/benchmark_page.py
	$(BIN)/python tools/format_table.py
	$(BIN)/python tools/speed_page.py
	$(BIN)/python tools/comparison_page.py
	$(BIN)/python tools/closer_page.py
	$(BIN)/python tools/paper_plans_page.py
	$(BIN)/python tools/sequential_page.py
	$(BIN)/python tools/methods_page.py
	$(BIN)/python tools/scale_page.py
	$(BIN)/python tools/commands_page.py

# One core each: XLA's threads bring nothing to so small a network. `make -j2 references` runs two at a time.
REFERENCE_0 := --seed 0 --seed 1 --seed 2 --seed 3 --seed 4
REFERENCE_1 := $(REFERENCE_0)
REFERENCE_5 := --draws 2400
REFERENCE_6 := --draws 3000
references: reference-0 reference-1 reference-5 reference-6  ## the reference posteriors of uci_gap, hours of a core
reference-1: reference-0 # the same rows, and so the same chains
reference-%: $(VENV)/installed
	OPENBLAS_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python -m anchorwalk reference uci_gap --split $* $(REFERENCE_$*) \
	  --record results/reference-uci_gap.jsonl --out src/anchorwalk/benchmark/references/posteriors/uci_gap-$*.npz

benchmark: $(VENV)/installed  ## the records of uci_gap: all budgets, 100 runs on split 0 and 20 on the others
	$(BIN)/python experiments/uci_gap.py

study: $(VENV)/installed  ## what walks, moved targets and the number of chains change on uci_gap and dermamnist
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python experiments/study.py

sequential: $(VENV)/installed  ## chains of short trainings beside plans of one member a chain, with SOAP
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python experiments/sequential.py

methods: $(VENV)/installed  ## the related work at equal cost: a search for each method's settings, then all of them; many hours
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python experiments/methods.py

optimizers: $(VENV)/installed  ## optimisers at equal seconds, endings of trainings, HMC from trained starts, on uci_gap
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python experiments/optimizers.py

imdb: $(VENV)/installed  ## both priors of imdb, then AE and SAE with the better one: hours
	$(BIN)/python experiments/imdb.py

comparison: $(VENV)/developed  ## estimators beside scikit-learn's own, on ten data sets
	$(BIN)/python experiments/comparison.py

# bde wants an environment of its own: ANCHORWALK_BDE=path/to/its/python make comparison-uci
comparison-uci: $(VENV)/developed  ## estimators beside others on the tables of $$ANCHORWALK_DATA/uci; many hours, cell by cell
	$(BIN)/python -m pip install --quiet --editable '.[compare]'
	$(BIN)/python experiments/uci_comparison.py

defaults: $(VENV)/developed  ## settings of the estimators, by cross-validation on rows that no comparison tests on; many hours
	$(BIN)/python experiments/defaults.py

bench: $(VENV)/installed  ## speed, beside a plain loop and PyTorch
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/bench.py

sizes: $(VENV)/installed  ## time and memory of the estimators by rows and columns, up to 1,000,000 x 50
	$(BIN)/python benchmarks/sizes.py

scale: $(VENV)/developed  ## what a Ray cluster costs, on a machine that has nothing else to do
	$(BIN)/python benchmarks/scale.py

versions: $(VENV)/installed  ## throughput beside another checkout: make versions OLD=path
	$(BIN)/python benchmarks/versions.py --old $(OLD)

clean:
	rm -rf .venv-*
