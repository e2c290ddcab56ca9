# `make` shows what there is. Everything is plain cargo underneath; the Makefile sees to what cargo cannot: a C compiler
# (for the bundled SQLite) and redis-server.

.DEFAULT_GOAL := help
.PHONY: help run test test-full bench fmt lint doc tools redis python-tools

# rustup's folder, for shells that do not read a profile; what is on the PATH already goes first.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: tools redis ## Run the whole stack on this machine with generated comments (Ctrl-C ends it)
	cargo run --release --bin pagemark -- up --demo

# The doc tests come before the others because cargo would run them last: so the output ends on the summary of the
# package `tests`, the guarantees.
test: tools redis python-tools ## Format, lints, docs and all tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps
	cargo test --workspace --doc
	cargo test --workspace --lib --bins --tests

test-full: tools redis python-tools ## All tests on the whole of the reviews instead of a sample (long)
	PAGEMARK_TEST_FULL=1 cargo test --release --workspace --lib --bins --tests

bench: tools redis ## Measure everything, or NAME="import ..."; results in target/bench/report.json
	cargo run --release -p bench -- $(NAME)

fmt: tools ## Format the code
	cargo fmt --all

lint: tools ## Lints only
	cargo clippy --workspace --all-targets -- -D warnings

doc: tools ## Build the documentation of all crates
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

tools:
	@command -v cargo >/dev/null 2>&1 || { \
	    echo "cargo was not found. Install Rust: https://rustup.rs (rust-toolchain.toml names the version)" >&2; exit 1; }
	@command -v cc >/dev/null 2>&1 || { \
	    echo "No C compiler (cc) was found, and the bundled SQLite needs one. Install it:" >&2; \
	    echo "  Debian, Ubuntu: sudo apt-get install build-essential" >&2; \
	    echo "  Fedora:         sudo dnf install gcc" >&2; \
	    echo "  Alpine:         sudo apk add build-base" >&2; \
	    echo "  macOS:          xcode-select --install" >&2; exit 1; }

redis:
	@sh scripts/ensure-redis.sh

python-tools:
	@sh scripts/ensure-python-tools.sh
