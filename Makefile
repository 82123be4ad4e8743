# Everything a newcomer and CI need. Prerequisites on Debian: apt-get install make git python3-venv
PYTHON ?= python3
BIN := .venv/bin
export PYTHONSAFEPATH := 1

.PHONY: help demo test tools soak check audit bench engine image images venv dev clean distclean format lock

help: ## what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: venv engine image ## the main job on a real old package: a batch without a model, then a fan-out with one
	@$(BIN)/python examples/demo/demo.py

test: dev engine tools image images ## the whole suite: real Redis, real Docker, the real loopback model server
	@scripts/test.sh

soak: dev tools image images ## the long chaos runs: 20 seeds, a loop blocked for a minute, half an hour of mixed load, an hour of odd input
	@mkdir -p tests/chaos/soak && rm -f tests/chaos/soak/last.jsonl
	@MUSTER_CHAOS=soak MUSTER_CHAOS_REPORT=tests/chaos/soak/last.jsonl MUSTER_TEST_STRICT=1 $(BIN)/python -m pytest tests/chaos tests/transport/acl tests/repo/test_repo_merge_properties.py tests/repo/test_repo_merge_runs.py \
		tests/orchestrator/publication tests/compose tests/orchestrator/goal/test_honest_changes.py tests/workers/test_gate_control.py
	@MUSTER_CHAOS=soak MUSTER_TEST_STRICT=1 $(BIN)/python -m pytest tests/transport -k valkey
	@MUSTER_TEST_RUNTIME=runsc $(BIN)/python -m pytest -rs -k "docker_keeps or (abuse and not bubblewrap)" \
		tests/sandbox/test_sandbox_contract.py tests/sandbox/abuse
	@if docker info --format '{{json .Runtimes}}' | grep -q '"runsc"'; then MUSTER_SANDBOX_RUNTIME=runsc $(BIN)/python examples/demo/demo.py; \
		else echo "soak: no demo on gVisor, since the engine has no runtime runsc (docs/sandbox.md)"; fi
	@MUSTER_CHAOS=soak MUSTER_CHAOS_REPORT=$(CURDIR)/tests/chaos/soak/last.jsonl $(BIN)/python -m pytest tests/fuzz

check: dev ## format, lint, types, architecture
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright
	@$(BIN)/python -m pytest tests/test_architecture.py

audit: ## known vulnerabilities of what the lock files pin; needs pip-audit on PATH and a network (docs/install.md)
	@for lock in requirements/runtime.lock sandbox/image/requirements.txt; do \
		pip-audit --strict --disable-pip --require-hashes --requirement $$lock || status=1; done; exit $${status:-0}

bench: .venv/.bench engine image ## measure queue, sandbox, command line, orchestrator, model access and agents
	@$(BIN)/python -m benchmarks.queue
	@$(BIN)/python -m benchmarks.sandbox
	@$(BIN)/python -m benchmarks.cli
	@$(BIN)/python -m benchmarks.orchestrator
	@$(BIN)/python -m benchmarks.model
	@$(BIN)/python -m benchmarks.agent
	@$(BIN)/python -m benchmarks.batch

venv: .venv/.runtime ## the virtual environment, from the hashed lock file

dev: .venv/.dev

.venv/.runtime: requirements/runtime.lock pyproject.toml
	@echo "muster: making .venv from requirements/runtime.lock" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.runtime requirements/dev.lock
	@echo "muster: adding the development tools from requirements/dev.lock" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

.venv/.bench: .venv/.dev requirements/bench.lock
	@echo "muster: adding the peers from requirements/bench.lock" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.lock
	@touch $@

engine:
	@scripts/docker-engine.sh

# `make --jobs` may do all at once, but for this: Debian's packages are installed by one at a time, and both kinds of
# images stand on a base that the first one makes.
tools: dev | engine
	@scripts/test-tools.sh

image: venv engine
	@$(BIN)/muster sandbox build

images: dev engine | image ## the images of orchestrator and workers, and their bills of materials in build/images
	@$(BIN)/python scripts/images.py

format: dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock:
	@scripts/lock.sh

clean: ## stop what the demo started and remove what was made; keeps .venv and the sandbox image
	@test ! -x $(BIN)/muster || MUSTER_STATE_DIR=.demo/state $(BIN)/muster down >/dev/null 2>&1 || true
	@rm -rf .demo .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	@rm -rf .venv .node
