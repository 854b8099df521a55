# Every target sets itself up on a machine with Python 3.11 or newer, git and make: a virtual
# environment in .venv, by uv where it is installed and by pip otherwise, re-used until
# pyproject.toml or constraints.txt changes.

BIN := .venv/bin
INSTALLED := .venv/.installed

# Newest first; python3 last, because it may be anything. A name on PATH proves nothing: pyenv puts
# names there for versions that it will not run.
PYTHONS := python3.13 python3.12 python3.11 python3

# What is built in isolation is held to the same versions; pip reads one or the other, by its age.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo run test check soak bench e2e clean

help:
	@echo 'make demo    watch amend work, on a temporary clone of this repository'
	@echo 'make run     run the daemon'
	@echo 'make check   format, lint, types, import floors'
	@echo 'make test    all tests that fit into five minutes'
	@echo 'make soak    the long ones'
	@echo 'make bench   measure, and print ratios'
	@echo 'make e2e     the real Claude Code and Codex against a scripted model (npm, 0.5 GB)'
	@echo 'make clean   remove everything that was made here'

demo: $(INSTALLED)
	@$(BIN)/amend demo

run: $(INSTALLED)
	@exec $(BIN)/amend run

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict amend
	$(BIN)/lint-imports

test: $(INSTALLED)
	$(BIN)/pytest -n 2 -m 'not soak'

soak: $(INSTALLED)
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m soak --timeout 7200

bench: $(INSTALLED)
	$(BIN)/python benchmarks/run.py

e2e: $(INSTALLED)
	@$(BIN)/python -m tests.e2e.run

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@set -eu; \
	python=''; \
	for each in $(PYTHONS); do \
		if "$$each" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' \
			>/dev/null 2>&1; then python=$$each; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo 'make: error: none of $(PYTHONS) is Python 3.11 or newer' >&2; exit 1; \
	fi; \
	if command -v uv >/dev/null 2>&1; then \
		$(BIN)/python -c '' 2>/dev/null || uv venv --quiet --clear --python "$$python" .venv; \
		uv pip install --quiet --python $(BIN)/python --constraints constraints.txt \
			--build-constraints constraints.txt --editable '.[dev]'; \
	else \
		$(BIN)/python -m pip --version >/dev/null 2>&1 || "$$python" -m venv --clear .venv; \
		$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'; \
	fi
	@touch $@
