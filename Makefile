# Two commands matter: `make run` shows what turnlog sees, `make test` proves it.
# Everything lands in .venv; only Python 3.11+, pip and make are needed beforehand.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Tests write and sync all the time; in memory, where there is room, they take half as long.
IN_MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "TMPDIR=/dev/shm"}')

PYTEST = $(BIN)/pytest -n auto --dist worksteal
# One more than there are cores: many of the quick tests wait for a process, a socket or a clock.
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Compiled tests are kept: to compile them takes longer than to collect them.
unexport PYTHONDONTWRITEBYTECODE

# Older versions of Claude Code resume sessions in other ways; these come with wheels of its SDK.
OLDER_CLAUDES := 2.1.51=0.1.40 2.1.91=0.1.55
# Codex as npm has it, and as wheels: older versions write other lines.
CODEX := 0.169.0
OLDER_CODEXES := 0.133.0 0.163.0

.PHONY: run test test-slow test-all programs faults faults-slice claudes codexes fuzz bench docs clean

run: $(VENV)/.installed
	@$(BIN)/turnlog check --or-sample samples/claude || test $$? -eq 1  # 1: it found something
	@echo
	@$(BIN)/turnlog --or-sample samples/claude
	@echo
	@echo " turnlog is $(BIN)/turnlog here; uv tool install . or pipx install . puts it on your path"

# Five minutes on two cores. Tests share what they set up (a server that forks commands, a browser),
# so a worker is given neighbours; whoever is done first takes over from the others.
test: $(VENV)/.dev $(VENV)/.codex programs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(IN_MEMORY) $(PYTEST) -n $(WORKERS) -m "not slow"

# Every step of sweeps, and many examples of every property (see tests/conftest.py).
test-slow: $(VENV)/.dev $(VENV)/.codexes programs
	$(IN_MEMORY) $(PYTEST) -m "slow or hypothesis"

test-all: test test-slow

# Pages are tested in a real browser, completion in a real zsh, some faults on a FUSE mount. Where one
# of them is missing and we may not install it, its tests are skipped and say so.
programs:
	@{ command -v chromium && command -v zsh && command -v fusermount3; } >/dev/null || \
	  test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium zsh fuse3; } || true

# The writer under kills, full disks, lying syncs and eight processes: the whole sweep.
faults: $(VENV)/.faults $(VENV)/.claudes programs
	$(BIN)/python -m faults

# A seeded slice of the same, a few minutes long, for CI.
faults-slice: $(VENV)/.faults $(VENV)/.claudes programs
	$(BIN)/python -m faults --slice

claudes: $(VENV)/.claudes

codexes: $(VENV)/.codexes

fuzz: $(VENV)/.fuzz
	$(BIN)/python -m fuzz

bench: $(VENV)/.dev
	$(BIN)/python -m bench

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz .bench .faults

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("turnlog needs Python 3.11 or newer; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.faults: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check mfusepy
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	@touch $@

# Where one cannot be had, what needs it is skipped and says so; the next run tries again.
$(VENV)/.claudes: $(VENV)/bin/python
	@missing=; for each in $(OLDER_CLAUDES); do \
	  version=$${each%=*}; place=$(VENV)/claude/$$version; \
	  test -x $$place/claude && continue; \
	  rm -rf $$place; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --target $$place/sdk claude-agent-sdk==$${each#*=} && \
	  mv $$place/sdk/claude_agent_sdk/_bundled/claude $$place/claude || \
	  { missing=$$version; echo "claude $$version cannot be fetched: its tests are skipped"; }; \
	  rm -rf $$place/sdk; \
	done; test -n "$$missing" || touch $@

# The newest Codex; what comes with npm is a program that needs no npm.
$(VENV)/.codex: $(VENV)/bin/python
	@place=$(VENV)/codex/$(CODEX); rm -rf $$place; mkdir -p $$place; \
	npm install --silent --no-audit --no-fund --prefix $$place @openai/codex@$(CODEX) && \
	(cd $$place && ln -s node_modules/@openai/codex-*/vendor/*/bin/codex codex) && touch $@ || \
	{ rm -rf $$place; echo "codex $(CODEX) cannot be fetched: its tests are skipped"; }

$(VENV)/.codexes: $(VENV)/.codex
	@missing=; for version in $(OLDER_CODEXES); do \
	  place=$(VENV)/codex/$$version; \
	  test -x $$place/codex && continue; \
	  rm -rf $$place; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --target $$place openai-codex-cli-bin==$$version && \
	  ln -s codex_cli_bin/bin/codex $$place/codex && chmod +x $$place/codex || \
	  { missing=$$version; rm -rf $$place; echo "codex $$version cannot be fetched: its tests are skipped"; }; \
	done; test -n "$$missing" || touch $@
