# Targets for people: `make` alone prints the list. README.md shows demo and test.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGES := $(wildcard core controlplane syncagent gitcache proxy towline bench charts deploy tests)
PROTOS := core/wire/v1/options.proto core/wire/v1/agent.proto
OPERATIONS := $(patsubst %,%generated.py,$(sort $(dir $(shell find towline -name '*.graphql')))) towline/generated_inputs.py
STUBS := $(addprefix core/wire/v1/,options_pb2.py options_pb2.pyi agent_pb2.py agent_pb2.pyi)
# The first Python on the PATH that is new enough; `make PYTHON=…` chooses another.
PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$one && break; done)
ATHERIS := atheris==3.0.0
CYCLONEDX := cyclonedx-bom==7.5.0
NATIVE := $(VENV)/.native
export CARGO_TARGET_DIR ?= $(HOME)/.cache/towline/native
CRATE := --manifest-path proxy/native/Cargo.toml
CRATE_FILES := $(wildcard proxy/native/src/*.rs) proxy/native/Cargo.toml proxy/native/crates.lock
CARGO := nice cargo --config build.jobs=2
# Checkouts share the target folder, and cargo compares their files with it by time alone.
OWN_TARGET := mkdir -p $(CARGO_TARGET_DIR); [ "$$(cat $(CARGO_TARGET_DIR)/checkout 2>/dev/null)" = "$(CURDIR)" ] \
	|| { touch proxy/native/src/lib.rs; echo "$(CURDIR)" >$(CARGO_TARGET_DIR)/checkout; }
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The module is for each Python from 3.11 on. Without this, pyo3 is compiled anew for each PATH.
export PYO3_NO_PYTHON := 1
# Hundreds of processes start: without bytecode each one compiles its imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) $(NATIVE) ## create the development environment in .venv; quick if nothing changed
	@:

$(READY): requirements-dev.lock pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "Towline needs Python 3.11 or newer: install it, or set make PYTHON=/path/to/python3" >&2; exit 1; }
	@command -v git >/dev/null || { echo "Towline needs git: install it with your system's package manager" >&2; exit 1; }
	@if command -v uv >/dev/null; then \
		[ -x $(BIN)/python ] || uv venv --quiet --python "$(PYTHON)" $(VENV); \
		install="uv pip install --quiet --python $(BIN)/python"; \
	else \
		[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); echo "Python has no venv module: on Debian, apt install python3-venv" >&2; exit 1; }; \
		install="$(BIN)/python -m pip install --quiet"; \
	fi; \
	echo "installing into $(VENV)" >&2; \
	$$install --require-hashes -r requirements-dev.lock; \
	$$install --no-deps --no-build-isolation -e .
	@touch $@

# The target folder outlives the checkout, so that a change of the crate alone is compiled anew.
$(NATIVE): $(READY) $(CRATE_FILES)
	@if cargo --version >/dev/null 2>&1 && [ "$$(uname)" = Linux ]; then \
		echo "building the native data plane" >&2; \
		$(MAKE) --no-print-directory native-module && install $(CARGO_TARGET_DIR)/release/libtowline_native.so \
			"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/towline_native.abi3.so" \
		|| echo "the native data plane cannot be built here: the proxy runs on its portable one" >&2; \
	else echo "without cargo or Linux, the proxy runs on its portable data plane" >&2; fi
	@touch $@

# Cargo's lock file names its registry in each entry; crates.lock is the same without it.
proxy/native/Cargo.lock: proxy/native/crates.lock
	@cd proxy/native && rm -f Cargo.lock && cargo generate-lockfile --quiet \
		&& source=$$(grep --max-count=1 '^source' Cargo.lock) \
		&& sed "s|^checksum|$$source\n&|" crates.lock >Cargo.lock

# CARGO_TARGET: another architecture, whose gcc links the module.
.PHONY: native-module
native-module: proxy/native/Cargo.lock
	@$(OWN_TARGET); target=$(CARGO_TARGET); machine=$${target%%-*}; \
	if [ -n "$$target" ] && [ "$$machine" != "$$(uname -m)" ]; then \
		export CC=$$machine-linux-gnu-gcc; \
		export CARGO_TARGET_$$(echo "$$target" | tr a-z- A-Z_)_LINKER=$$CC; \
	fi; \
	$(CARGO) build --quiet --release --locked $(CRATE) $${target:+--target $$target}

.PHONY: test-native
test-native: setup ## test the native data plane in Rust; needs cargo
	@cd proxy/native && cargo fmt --check
	@$(OWN_TARGET)
	@$(CARGO) test --quiet --release --locked $(CRATE) --no-default-features

.PHONY: lint-native
lint-native: setup ## lint the native data plane; needs cargo
	@$(OWN_TARGET)
	@$(CARGO) clippy --quiet --release --locked $(CRATE) --no-default-features --all-targets -- --deny warnings

# Go of the machine, else from a wheel.
GO = $$(../$(BIN)/python -c 'from towline.demo.clusters.go_toolchain import find_go; print(find_go())')

.PHONY: terraform
terraform: setup ## build the Terraform provider into dist/terraform; needs Go
	@cd terraform && nice "$(GO)" build -o ../dist/terraform/terraform-provider-towline .

.PHONY: test-terraform
test-terraform: setup ## check and test the Terraform provider in Go
	@cd terraform && go="$(GO)" && unformatted=$$("$$("$$go" env GOROOT)/bin/gofmt" -l .) && \
	{ [ -z "$$unformatted" ] || { echo "run gofmt -w on these files: $$unformatted" >&2; exit 1; }; } && \
	nice "$$go" vet ./... && nice "$$go" test ./...

OPENTOFU := v1.11.5
OPENTOFU_SUM := h1:hgKyxSoQjjTKv6PPcVhFpuUjnajPlOWlrC331kRYWd0=
TOFU := $(HOME)/.cache/towline/opentofu/$(OPENTOFU)/tofu
MODULE_FOLDER := import json, sys; module = json.load(sys.stdin); \
	sys.exit("another checksum than in the Makefile") if module["Sum"] != "$(OPENTOFU_SUM)" else print(module["Dir"])

.PHONY: opentofu
opentofu: $(TOFU) ## build OpenTofu, with which tests run the provider, into the cache; needs Go

$(TOFU): | setup
	@cd terraform && go="$(GO)" && download="github.com/opentofu/opentofu@$(OPENTOFU)" && \
	folder=$$("$$go" mod download -json "$$download" | ../$(BIN)/python -c '$(MODULE_FOLDER)') && \
	cd "$$folder" && nice "$$go" build -p 2 -o $(TOFU) ./cmd/tofu

.PHONY: terraform-docs
terraform-docs: setup ## write the reference of the Terraform provider into terraform/docs
	@cd terraform && "$(GO)" run ./internal/docs/write

CONSOLE_FILES := $(shell git ls-files --cached --others --exclude-standard console 2>/dev/null)
NODE_MODULES := console/node_modules/.ready
NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel error

$(NODE_MODULES): console/package-lock.json
	@echo "installing the console's packages" >&2; cd console && $(NPM_CI)
	@touch $@

console/dist/index.html: $(NODE_MODULES) $(filter-out console/tests/%,$(CONSOLE_FILES))
	@cd console && npm run --silent build

.PHONY: console
console: ## build the web console, which the control plane serves; needs npm
	@command -v npm >/dev/null || { echo "The console is built by npm: install Node.js 20 or newer" >&2; exit 1; }
	@$(MAKE) --no-print-directory console/dist/index.html

# Targets that run the product include the console if npm is installed.
.PHONY: console-if-npm
console-if-npm:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory console/dist/index.html >&2; \
	else echo "npm is not installed: everything runs, but without the web console" >&2; fi

.PHONY: lint-console
lint-console: $(NODE_MODULES) ## lint and type-check the console, and compare its generated types with their source
	@cd console && npm run --silent lint && npm run --silent types
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	(cd console && node scripts/generate.js "$$fresh"); \
	for name in generated.ts inputs.ts kinds.ts secretSources.ts; do diff -u console/src/api/$$name "$$fresh/$$name" \
	|| { echo "console/src/api/$$name is out of date: run npm run generate in console" >&2; exit 1; }; done

.PHONY: test-console
test-console: $(NODE_MODULES) ## run the console's component tests
	@cd console && npm test --silent

.PHONY: screens
screens: setup console ## take new pictures of screens of the console that look different; needs Chromium
	@PICTURES=write $(BIN)/pytest -q tests/integration/console/test_console_pictures.py

.PHONY: demo
demo: setup console-if-npm ## run a complete installation on this machine until Ctrl-C; DEMO="--check" verifies its steps
	@$(BIN)/towline demo $(DEMO)

.PHONY: test
test: setup servers charts ## run all checks and tests; PYTEST="-k gate" passes options to pytest
	@checks="lint docs test-terraform"; if command -v npm >/dev/null; then checks="$$checks console/dist/index.html lint-console test-console"; \
	else echo "npm is not installed: the web console is not tested" >&2; fi; \
	if command -v cargo >/dev/null; then checks="$$checks test-native"; fi; \
	$(MAKE) --no-print-directory --output-sync=target --jobs=2 $$checks
	@if [ -n "$(PYTEST)" ]; then $(RUN_TESTS) $(PYTEST); else $(MEASURE_TESTS) tests; $(REPORT_COVERAGE); fi

# The built kubectl is used if the machine has none.
RUN_TESTS = PATH="$$PATH:$$($(BIN)/python -m towline.demo.clusters build)" $(BIN)/python -m tests.in_memory $(BIN)/pytest -q -n 6 --dist loadgroup -ra
MEASURED := tests/unit/controlplane tests/integration/controlplane
MEASURE_TESTS = rm -f .coverage .coverage.*; mkdir -p artifacts; MEASURED="$(MEASURED)" $(RUN_TESTS)
REPORT_COVERAGE = $(BIN)/coverage combine -q; \
	$(BIN)/coverage report --skip-covered --show-missing --sort=cover >artifacts/coverage.txt || { tail -n 3 artifacts/coverage.txt >&2; exit 1; }; \
	echo "coverage of the control plane: $$(awk '/^TOTAL/ { print $$NF }' artifacts/coverage.txt)"

.PHONY: coverage
coverage: setup ## test the control plane, and measure the coverage of its code
	@$(MEASURE_TESTS) $(MEASURED); $(REPORT_COVERAGE)

.PHONY: servers
servers: setup
	@$(BIN)/python -m towline.demo.clusters build >/dev/null
	@$(BIN)/python -m tests.servers.install

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: setup ## fuzz all parsers of untrusted bytes; FUZZ_SECONDS=600 for each
	@$(BIN)/python -c 'import atheris' 2>/dev/null || { \
		if command -v uv >/dev/null; then uv pip install --quiet --python $(BIN)/python $(ATHERIS); \
		else $(BIN)/python -m pip install --quiet $(ATHERIS); fi; }
	@for target in frames link http2 head answer chunks proxy_header; do \
		$(BIN)/python -m tests.fuzz $$target dist/fuzz/$$target \
			-artifact_prefix=dist/fuzz/$$target- -max_total_time=$(FUZZ_SECONDS); \
	done
	@$(MAKE) --no-print-directory fuzz-native

.PHONY: fuzz-native
fuzz-native: ## test the native data plane with random values until FUZZ_SECONDS are over; needs cargo
	@$(OWN_TARGET); end=$$((SECONDS + $(FUZZ_SECONDS))); while [ $$SECONDS -lt $$end ]; do \
		seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); FUZZ_SEED=$$seed \
		$(CARGO) test --quiet --release --locked $(CRATE) --no-default-features >dist/fuzz-native.log 2>&1 \
		|| { cat dist/fuzz-native.log; echo "the native data plane fails with FUZZ_SEED=$$seed" >&2; exit 1; }; \
	done

SEED ?= 1
MINUTES ?= 5
.PHONY: chaos
chaos: setup servers ## inject failures under load, then verify the store; SEED=7 MINUTES=30
	@CHAOS_SEED=$(SEED) CHAOS_MINUTES=$(MINUTES) $(BIN)/pytest -q -s tests/integration/chaos

.PHONY: world
world: setup servers ## render and install public packages, run other clients, and follow the README; needs Go; PART=render NAME=podinfo
	@PATH="$$PATH:$$($(BIN)/python -m towline.demo.clusters build)" $(BIN)/python -m tests.world "$(PART)" "$(NAME)"

.PHONY: charts
charts: setup ## lint the Helm charts, and package them into dist/charts
	@$(BIN)/python charts/package.py dist/charts

.PHONY: manifests
manifests: setup ## render the charts to plain manifests and Kustomize bases in deploy/kubernetes
	@$(BIN)/python -m charts.manifests .

.PHONY: docs
docs: setup ## build the documentation as a site in dist/docs; fails on a dead link or anchor
	@$(BIN)/python docs/build.py dist/docs

.PHONY: zipapp
zipapp: setup ## build the command line as one file, dist/towline.pyz, for this system and Python version
	@$(BIN)/python -m deploy.zipapp dist/towline.pyz

.PHONY: image
image: setup console-if-npm ## build the container image for amd64 and arm64 as an OCI archive, without an engine; needs apt
	@$(BIN)/python -m deploy.image dist/image

SBOM := dist/sbom
.PHONY: sbom
sbom: setup ## write SBOMs (CycloneDX) of the program, the console and the native module into dist/sbom
	@mkdir -p $(SBOM)
	@[ -d $(SBOM)/tools ] || { \
		if command -v uv >/dev/null; then uv pip install --quiet --python $(BIN)/python --target $(SBOM)/tools $(CYCLONEDX); \
		else $(BIN)/python -m pip install --quiet --target $(SBOM)/tools $(CYCLONEDX); fi; }
	@PYTHONPATH=$(SBOM)/tools $(BIN)/python -W ignore -m cyclonedx_py requirements --output-reproducible \
		--pyproject pyproject.toml --output-file $(SBOM)/python.cdx.json requirements.lock
	@if command -v npm >/dev/null; then \
		(cd console && npm sbom --silent --package-lock-only --sbom-format cyclonedx) \
		| $(BIN)/python -m deploy.sbom >$(SBOM)/console.cdx.json; fi
	@if command -v cargo >/dev/null; then $(MAKE) --no-print-directory proxy/native/Cargo.lock; \
		cargo metadata $(CRATE) --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu \
		| $(BIN)/python -m deploy.crates >$(SBOM)/native.cdx.json; fi
	@ls $(SBOM)/*.json

.PHONY: audit
audit: setup ## list known vulnerabilities of locked packages; fails unless deploy/audit/accepted_risks.toml accepts them
	@$(BIN)/python -m deploy.audit dist/audit

.PHONY: lint
lint: setup ## check style, types, import rules, prose and generated files
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "run make fmt to format these files:" >&2; $(BIN)/ruff format --check .; }
	@$(BIN)/ty check --quiet $(PACKAGES) || $(BIN)/ty check $(PACKAGES)
	@$(BIN)/python -m docs.prose.lint
	@rules=$$($(BIN)/lint-imports --no-logo) || { echo "$$rules" >&2; exit 1; }
	@generated=$$(mktemp -d); trap 'rm -rf "$$generated"' EXIT; \
	$(MAKE) --no-print-directory proto schema operations INTO="$$generated"; \
	for file in $(STUBS) schema.graphql $(KINDS) $(PLUGINS) $(SCHEMAS) $(OPERATIONS); do \
		diff -ru $$file "$$generated/$$file" || { echo "$$file is out of date: run make proto schema operations" >&2; exit 1; }; \
	done

BENCH := $(filter-out report,$(sort $(basename $(notdir $(wildcard bench/[a-z]*.py)))))

.PHONY: bench
bench: setup console-if-npm ## run the benchmarks; BENCH=gitcache for one group
	@for group in $(BENCH); do $(BIN)/python -m bench.$$group; done

.PHONY: fmt
fmt: setup ## format the code and fix lint errors
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

# Output folder of generated files: the checkout, or a temporary folder in lint.
INTO := .
KINDS := console/src/api/pipeline_kinds.json
PLUGINS := towline/cli/shell/plugin_kinds.json
SCHEMAS := terraform/internal/manifest/schemas

.PHONY: proto
proto: setup ## regenerate the protocol's stubs
	@$(BIN)/python -m grpc_tools.protoc -I . --python_out=$(INTO) --pyi_out=$(INTO) $(PROTOS)

.PHONY: schema
schema: setup ## write the GraphQL schema, the kinds of plug-ins, and the kinds of manifests
	@$(BIN)/python -m controlplane.api.schema >$(INTO)/schema.graphql
	@mkdir -p $(INTO)/$(dir $(KINDS)); $(BIN)/python -m controlplane.pipelines.api.kinds_schema >$(INTO)/$(KINDS)
	@mkdir -p $(INTO)/$(dir $(PLUGINS)); $(BIN)/python -m controlplane.api.plugin_kinds >$(INTO)/$(PLUGINS)
	@$(BIN)/python -m controlplane.manifest_schemas $(INTO)/$(SCHEMAS)

.PHONY: operations
operations: setup ## check the GraphQL documents of the command line, and generate their typed Python
	@$(BIN)/python -m towline.cli.generate $(INTO)

.PHONY: lock
lock: setup ## update the pinned requirements; needs uv
	@lock="uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate"; \
	$$lock pyproject.toml --extra otel --extra postgres --extra s3 -o requirements.lock; \
	$$lock pyproject.toml --extra otel --extra postgres --extra s3 --group dev -o requirements-dev.lock; \
	$$lock --group go -o towline/demo/clusters/assets/go-toolchain.lock; \
	for server in postgres redis; do $$lock --group $$server -o tests/servers/$$server.lock; done; \
	$$lock --group charts -o charts/tools.lock; \
	$$lock --group docs -c requirements-dev.lock -o docs/tools.lock; \
	$$lock --group audit -o deploy/audit/tools.lock; \
	$$lock --group zipapp -o deploy/zipapp.lock
	@if command -v cargo >/dev/null; then cargo update --quiet $(CRATE) \
		&& grep --invert-match '^source' proxy/native/Cargo.lock >proxy/native/crates.lock; fi

.PHONY: clean
clean: ## remove all build output; built clusters stay in the user's cache
	@rm -rf $(VENV) artifacts build dist console/dist console/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -prune -exec rm -rf {} +
