# Everything else is installed on demand: you only need cargo, make and Python 3.11 or newer.
#
#   make test JAX=0.8.3                      another version of JAX, in a separate environment
#   make test JAX=0.12.0 PYTHON=python3.12   a version that needs a newer Python

PYTHON ?= python3
JAX ?=

VENV := .venv$(if $(JAX),-jax$(JAX))
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
CARGO_TEST := $(if $(shell command -v cargo-nextest),nextest run,test)

export CARGO_TERM_QUIET ?= true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1
export PYO3_PYTHON := $(abspath $(BIN)/python)
# A GPU would only slow the tests down and change their numbers.
export JAX_PLATFORMS ?= cpu

.DEFAULT_GOAL := help
.PHONY: help demo test bench coverage fuzz web opsets lint fmt clean rust-lint rust-test python-lint python-test

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(STAMPS)/build ## Export a function, run the model, show where each node came from.
	@$(BIN)/python examples/stacktrace_sample.py
	@$(BIN)/jax2onnx show build/sandbox_stacktrace_sample.onnx

test: lint rust-test python-test ## Run all tests, lints and type checks.

bench: $(STAMPS)/build $(STAMPS)/test ## Measure speed and memory; writes build/bench.json.
	@$(BIN)/python bench/run.py $(if $(REFERENCE),--reference)

coverage: $(STAMPS)/build $(STAMPS)/test ## Compare everything JAX offers with JAX; writes docs/COVERAGE.md.
	@$(BIN)/python -m conformance

fuzz: $(STAMPS)/build $(STAMPS)/test ## Test with random programs: make fuzz SECONDS=600 SEED=7.
	@cd tests && $(abspath $(BIN))/python -m fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),$(shell date +%s))

web: build/web/node_modules ## Install onnxruntime-web, so that models are tested in Node and a browser.

build/web/node_modules:
	mkdir -p build/web
	npm install --prefix build/web --no-audit --no-fund onnxruntime-web@1.30.0

opsets: $(STAMPS)/build $(STAMPS)/test ## Compare all programs and models with JAX at every opset.
	@cd tests && PYTHONPATH=..:. $(abspath $(BIN))/python every_opset.py

lint: rust-lint python-lint ## Run rustfmt, clippy, ruff, mypy and stubtest.

fmt: $(STAMPS)/lint ## Format everything.
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove environments and build products.
	rm -rf .venv .venv-jax* build dist target python/jax2onnx/_core*.so

rust-lint: $(STAMPS)/python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

rust-test: $(STAMPS)/python
	cargo $(CARGO_TEST) --workspace
	cargo test --workspace --doc

python-lint: $(STAMPS)/lint $(STAMPS)/build
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/stubtest jax2onnx._core

python-test: $(STAMPS)/build $(STAMPS)/test
	$(BIN)/python scripts/gen_op_table.py --check
	$(BIN)/pytest -q -n auto

# A stamp is newer than everything it was made from, so nothing is done twice.
$(STAMPS)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --upgrade 'pip>=25.1'
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/jax: $(STAMPS)/python
	$(BIN)/pip install 'jax$(if $(JAX),==$(JAX),>=0.7)'
	touch $@

$(STAMPS)/demo $(STAMPS)/test $(STAMPS)/lint: $(STAMPS)/%: $(STAMPS)/jax pyproject.toml
	$(BIN)/pip install --group $* $(if $(JAX),'jax==$(JAX)')
	touch $@

$(STAMPS)/build: $(STAMPS)/demo $(RUST) pyproject.toml
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet
	touch $@
