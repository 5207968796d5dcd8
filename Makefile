# Each target makes what it needs: a virtual environment from pinned versions, then its work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-oldest test-newest bench bench-peers campaign campaign-fleet campaign-fuzz docs wheel clean

$(VENV)/run.stamp: pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade -c requirements.txt setuptools
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c requirements.txt -e .
	touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c requirements.txt -e ".[dev]"
	touch $@

demo: $(VENV)/run.stamp
	$(BIN)/dynid demo

# Types are checked beside the tests: a fresh machine takes two minutes for them, on one core.
test: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy > $(VENV)/mypy.txt & types=$$!; \
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal; \
	tests=$$?; wait $$types || { cat $(VENV)/mypy.txt; exit 1; }; exit $$tests

test-slow: $(VENV)/dev.stamp
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m slow --timeout 1800 -o faulthandler_timeout=2400

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

bench-peers: $(VENV)/dev.stamp
	$(BIN)/python -m bench.peers

# SCHEDULER=tcp://head:8786 for a Dask cluster
campaign: $(VENV)/dev.stamp
	$(BIN)/python -m campaign $(if $(SCHEDULER),--scheduler $(SCHEDULER))

# 200 robots x 26 weeks; FLEET="--robots 20 --weeks 8" for a small one, "--scheduler tcp://head:8786" for a cluster
campaign-fleet: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/python -m campaign.fleet --adding --memory --scaling $(FLEET)

# Hostile files and command lines; goes on where it was stopped (COUNT=1000 for fewer). Then interrupts and kills.
COUNT ?= 100000
campaign-fuzz: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/python -m campaign.fuzz $(COUNT)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/python -m campaign.signals --interrupts 500 --kills 1000
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/python -m campaign.start_up --every 60 robots

# The core of the tests with the oldest versions that pyproject.toml allows, and with the newest that there are; PYTHON=python3.13 for another Python.
CORE := tests/robot tests/storage tests/logs tests/identifiability tests/viewer tests/cli/test_identify.py tests/cli/test_main.py
CORE_NEEDS := -e ".[hdf5,mujoco,ros,view,xacro]" pytest pytest-timeout pytest-xdist hypothesis sympy
CORE_RUN := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1
test-oldest:
	$(PYTHON) -m venv --clear .venv-oldest
	sed -n '/^dependencies/,/^docs/s/^.*"\([a-z0-9-]*\)>=\([0-9.]*\)".*$$/\1==\2/p' pyproject.toml > .venv-oldest/constraints.txt
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check -c .venv-oldest/constraints.txt $(CORE_NEEDS)
	$(CORE_RUN) .venv-oldest/bin/python -m pytest -n 2 --dist worksteal $(CORE)

test-newest:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/pip install --quiet --disable-pip-version-check --upgrade $(CORE_NEEDS)
	$(CORE_RUN) .venv-newest/bin/python -m pytest -n 2 --dist worksteal $(CORE)

$(VENV)/docs.stamp: $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c requirements.txt -e ".[docs]"
	touch $@

docs: $(VENV)/docs.stamp
	PYTHONPATH=. $(BIN)/zensical build --strict
	$(BIN)/python -m bench.site site
	@echo "wrote site/index.html"

wheel: $(VENV)/run.stamp
	rm -rf build dist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest build dist out site .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
