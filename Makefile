# Each target makes what it needs: a virtual environment from pinned versions, then its work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow bench bench-peers campaign docs wheel clean

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

test: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-slow: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 DYNID_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m slow --timeout 1800 -o faulthandler_timeout=2400

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

bench-peers: $(VENV)/dev.stamp
	$(BIN)/python -m bench.peers

campaign: $(VENV)/dev.stamp
	$(BIN)/python -m campaign

$(VENV)/docs.stamp: $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c requirements.txt -e ".[docs]"
	touch $@

docs: $(VENV)/docs.stamp
	$(BIN)/mkdocs build --strict --quiet
	@echo "wrote site/index.html"

wheel: $(VENV)/run.stamp
	rm -rf build dist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) build dist out site .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
