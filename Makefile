# What a checkout can do; `make` lists it. Each target first makes the environment it needs (tools/bootstrap.py).
# PYTHON=… another Python >= 3.10, JOBC_VENV=… another place than .venv, JOBS=… test processes, ARGS=… for pytest, prove

JOBS ?= 4
ARGS ?=
VENV = $(or $(JOBC_VENV),$(CURDIR)/.venv)
IN_VENV = . "$(VENV)/bin/activate" &&

SKY = $(CURDIR)/.venv-sky

.PHONY: help demo test test-sky prove check lint types layers format docs site build venv-demo venv-dev clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile

demo: venv-demo ## compile a small job and train it on 2 processes of this machine
	@$(IN_VENV) python tools/demo.py

test: venv-dev ## every test; ARGS="-k name" for some
	@$(IN_VENV) python tests/testbed/install.py && python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

test-sky: venv-dev ## SkyPilot itself: it reads the goldens, and launches one on the test bed; ten minutes the first time
	@$(IN_VENV) python tests/testbed/install.py && python tests/skypilot/install.py "$(SKY)" && \
		JOBC_SKY="$(SKY)" python -m pytest $(ARGS) tests/skypilot

prove: venv-dev ## the counted campaigns of docs/proof, some hours; ARGS="same_seed --fresh" for one
	@$(IN_VENV) $(if $(wildcard $(SKY)/made_from),JOBC_SKY="$(SKY)" )python -m prove $(ARGS)

check: lint types layers test ## lint, types, layers, tests: what CI runs

lint: venv-dev ## ruff, the format, spelling, and plain English in pages, docstrings and messages
	@$(IN_VENV) ruff check . && ruff format --check . && codespell && python tools/prose.py

types: venv-dev ## mypy, strict
	@$(IN_VENV) mypy && mypy --no-namespace-packages tools/*.py tools/pages/*.py

layers: venv-dev ## who may import whom
	@$(IN_VENV) lint-imports

format: venv-dev ## rewrite the Python files as lint wants them
	@$(IN_VENV) ruff check --fix . ; ruff format .

docs: venv-dev ## the generated pages of docs/: keys, environment, codes
	@$(IN_VENV) python tools/docs.py

site: venv-dev ## the documentation site, in site/; it builds without network
	@$(IN_VENV) NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict && echo 'site/index.html; with search: python -m http.server -d site'

build: venv-dev ## wheel and sdist, in dist/
	@$(IN_VENV) python -m build --no-isolation

venv-demo venv-dev: venv-%:
	@$(FIND_PYTHON); "$$python" tools/bootstrap.py $*

clean: ## remove what the tools left, not .venv, artifacts or runs
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*/*' -prune -exec rm -rf {} +

# The first Python >= 3.10 that can make environments; failing that the first >= 3.10, which then says what it lacks.
FIND_PYTHON = python=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python3.10); do \
		"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue; \
		python="$${python:-$$candidate}"; \
		"$$candidate" -c 'import ensurepip, venv' 2>/dev/null && python="$$candidate" && break; \
	done; \
	if [ -z "$$python" ]; then \
		echo "error: jobc needs Python 3.10 or newer; $(if $(PYTHON),$(PYTHON) is none,there is none on PATH)" >&2; \
		echo "  install one, or name it:  make PYTHON=/path/to/python3 …" >&2; \
		exit 1; \
	fi
