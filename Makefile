# The two commands of the README: `make demo` and `make test`. Both set up what is missing.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/pythia/target
PYTHIA := $(CARGO_TARGET_DIR)/quick/pythia
DEMO_STORE ?= $(CARGO_TARGET_DIR)/demo.pythia

RELEASE ?= dist

.PHONY: setup setup-tests setup-release demo test lint docs bench build wheel release check-release

setup:
	@scripts/setup

setup-tests:
	@scripts/setup tests

setup-release:
	@scripts/setup release

# The program as it is published and measured. It takes twice as long to build as with `--release`.
build: setup
	cargo build --profile dist --locked -p pythiadb-cli

# Loads the bundled slice of YAGO and runs the Pythia paper's queries on it. The profile is quick to build: see Cargo.toml.
demo: setup
	cargo build --profile quick --locked -p pythiadb-cli
	@rm -rf "$(DEMO_STORE)"
	$(PYTHIA) load -l "$(DEMO_STORE)" testdata/yago/yago-slice.nt.zst
	@scripts/demo "$(PYTHIA)" "$(DEMO_STORE)" testdata/yago/queries.sparql

# Format, lints and all tests: of the crates, of the Python package, of the benchmarks, of instruction counts, of the page in a
# browser, and of other programs' clients with the server.
test: setup-tests lint
	cargo test --locked --workspace
	scripts/test-python
	python3 -m unittest discover -s bench/tests
	bench/instructions
	scripts/test-page
	scripts/test-clients

lint: setup
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

docs: setup
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

# The Python package, in the folder RELEASE: see crates/pythia-python/README.md.
wheel: setup-tests
	@scripts/wheel "$(RELEASE)"

# The files of a release, in the folder RELEASE, and their check: see CONTRIBUTING.md.
release: setup-release
	@scripts/release "$(RELEASE)"

check-release: setup-release
	@scripts/check-release "$(RELEASE)"

# Ours beside Oxigraph, Virtuoso and Jena: see bench/README.md.
bench: build
	bench/compare
