# Tasks in a checkout; `make` lists them. Each target first creates the environment that it needs (tools/bootstrap.py).
# PYTHON=… a different Python >= 3.10, JOBC_VENV=… instead of .venv, JOBS=… test processes, ARGS=… for pytest or prove

JOBS ?= 4
ARGS ?=
VENV = $(or $(JOBC_VENV),$(CURDIR)/.venv)
IN_VENV = . "$(VENV)/bin/activate" &&

SKY = $(CURDIR)/.venv-sky

.PHONY: help demo test test-sky prove check lint types layers format docs site build venv-demo venv-dev clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile

demo: venv-demo ## compile a small job and train it in 2 processes on this machine
	@$(IN_VENV) python tools/demo.py

test: venv-dev ## run every test; ARGS="-k name" selects tests
	@$(IN_VENV) python tests/testbed/install.py && python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

test-sky: venv-dev ## test against SkyPilot: it loads the goldens and launches one on the test bed; takes ten minutes the first time
	@$(IN_VENV) python tests/testbed/install.py && python tests/skypilot/install.py "$(SKY)" && \
		JOBC_SKY="$(SKY)" python -m pytest $(ARGS) tests/skypilot

prove: venv-dev ## run the campaigns in docs/proof, which takes hours; ARGS="same_seed --fresh" runs one
	@$(IN_VENV) $(if $(wildcard $(SKY)/made_from),JOBC_SKY="$(SKY)" )python -m prove $(ARGS)

check: lint types layers test ## run lint, types, layers and tests, as CI does

lint: venv-dev ## check Python style, formatting, spelling, and the English of pages, docstrings and messages
	@$(IN_VENV) ruff check . && ruff format --check . && codespell && python tools/prose.py

types: venv-dev ## run mypy in strict mode
	@$(IN_VENV) mypy && mypy --no-namespace-packages tools/*.py tools/pages/*.py

layers: venv-dev ## check the import rules between layers
	@$(IN_VENV) lint-imports

format: venv-dev ## fix what lint can fix in the Python files
	@$(IN_VENV) ruff check --fix . ; ruff format .

docs: venv-dev ## write the generated pages of docs/, such as keys, environment and codes
	@$(IN_VENV) python tools/docs.py

site: venv-dev ## build the documentation site in site/, without network access
	@$(IN_VENV) NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict && echo 'site/index.html; with search: python -m http.server -d site'

build: venv-dev ## build the wheel and sdist in dist/
	@$(IN_VENV) python -m build --no-isolation

venv-demo venv-dev: venv-%:
	@$(FIND_PYTHON); "$$python" tools/bootstrap.py $*

clean: ## remove the tools' output and caches, but not .venv, artifacts or runs
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*/*' -prune -exec rm -rf {} +

# The first Python >= 3.10 that can create environments, or else the first >= 3.10, which then reports what it lacks.
FIND_PYTHON = python=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python3.10); do \
		"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue; \
		python="$${python:-$$candidate}"; \
		"$$candidate" -c 'import ensurepip, venv' 2>/dev/null && python="$$candidate" && break; \
	done; \
	if [ -z "$$python" ]; then \
		echo "error: jobc needs Python 3.10 or newer; $(if $(PYTHON),$(PYTHON) is older or cannot be run,none is on PATH)" >&2; \
		echo "  install it, or specify its path:  make PYTHON=/path/to/python3 …" >&2; \
		exit 1; \
	fi
