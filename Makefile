# `make` lists the targets. Everything is plain cargo underneath. The scripts install what cargo cannot: a C compiler
# (for the bundled SQLite), redis-server, Chromium, Python and Node.js for tests, PostgreSQL and ApacheBench for
# measurements.

.DEFAULT_GOAL := help
.PHONY: help run install uninstall check test test-full test-ministack bench bench-publish lighthouse screenshots package package-pagemark simulate prove soak smoke fmt lint doc tools redis postgres ab python-tools ministack browser web-servers cargo-deny faketime

# Cargo's target folder.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# rustup's folder, for shells that do not read a profile. Programs on the PATH take precedence.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: tools ## Run the whole stack on this machine with generated comments (Ctrl-C ends it)
	@echo "This build is quick to make and slow to run; make install makes the fast one."
	cargo run --locked --profile local --package local-stack -- up --demo

# Where `make install` puts things.
INSTALLED := $(DESTDIR)$(or $(PREFIX),/usr/local)
COMPLETIONS := $(INSTALLED)/share/bash-completion/completions/pagemark \
    $(INSTALLED)/share/fish/vendor_completions.d/pagemark.fish $(INSTALLED)/share/zsh/site-functions/_pagemark

install: tools ## Build the fast pagemark, and put it with man pages, completions and its service into PREFIX=/usr/local
	cargo build --locked --profile deployed --bin pagemark
	install -D -m 755 $(TARGET)/deployed/pagemark $(INSTALLED)/bin/pagemark
	$(INSTALLED)/bin/pagemark man $(INSTALLED)/share/man/man1
	install -D -m 644 infra/pagemark.sysusers $(INSTALLED)/lib/sysusers.d/pagemark.conf
	install -D -m 644 infra/pagemark.service $(INSTALLED)/lib/systemd/system/pagemark.service
	sed -i.bak 's|/usr/local/bin|$(or $(PREFIX),/usr/local)/bin|' $(INSTALLED)/lib/systemd/system/pagemark.service
	rm $(INSTALLED)/lib/systemd/system/pagemark.service.bak
	mkdir -p $(dir $(COMPLETIONS))
	set -- $(COMPLETIONS); for shell in bash fish zsh; do \
	    $(INSTALLED)/bin/pagemark completions $$shell >"$$1" || exit 1; shift; \
	done

uninstall: ## Remove what make install has put into PREFIX=/usr/local
	rm -f $(INSTALLED)/bin/pagemark $(INSTALLED)/share/man/man1/pagemark.1 $(INSTALLED)/share/man/man1/pagemark-*.1 \
	    $(COMPLETIONS) $(INSTALLED)/lib/sysusers.d/pagemark.conf $(INSTALLED)/lib/systemd/system/pagemark.service

# Every target with tests. The other programs only call their library, and linking them as tests takes long.
UNIT_TESTED := --lib --bin bench
TESTED := $(UNIT_TESTED) --test guarantees

# A soak takes as long as one likes, and has a target of its own.
NO_SOAK := --skip soak::

# A test that needs a tool beside Rust and Redis, or takes long, says so: `#[ignore = "needs Chromium"]`. `make check`
# leaves it out, and cargo counts it as ignored. Every other target includes it.

check: tools redis ## Before a commit: format, lints, unit tests and most guarantees, with Rust and Redis alone (5 minutes)
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked --workspace $(UNIT_TESTED)
	PAGEMARK_TEST_SIZE=small cargo test --locked --workspace --test guarantees

# The doc tests come first, because cargo would run them last. So the output ends with the summary of the package
# `tests`, the guarantees.
test: tools redis python-tools browser web-servers cargo-deny ## Format, lints, docs and all tests; or the guarantees of one module: NAME=reading::ordering
ifdef NAME
	cargo test --locked --workspace --test guarantees -- $(NAME) --include-ignored
else
	cargo fmt --all --check
	$(TARGET)/cargo-deny/bin/cargo-deny --log-level error check bans licenses sources
	@sh scripts/check-advisories.sh
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps
	cargo test --locked --workspace --doc
	cargo test --locked --workspace $(TESTED) -- --include-ignored $(NO_SOAK)
endif

test-full: tools redis python-tools browser web-servers ## All tests on the whole of the reviews instead of a sample, and the packages for arm64 (long)
	PAGEMARK_TEST_SIZE=full cargo test --locked --release --workspace $(TESTED) -- --include-ignored $(NO_SOAK)
	@sh scripts/ensure-qemu.sh
	ARCH=arm64 sh scripts/package.sh
	PAGEMARK_TEST_PACKAGE=$(abspath $(TARGET))/package cargo test --locked --release --workspace --test guarantees -- packaged::each_zip --include-ignored

# Each module of the guarantees says on which engines it runs (`Engines` in tests/fixture/engine.rs), and the script makes
# the filters of this. What depends on the page index's server runs on Valkey beside ministack.
test-ministack: tools redis python-tools ministack ## The guarantees about table and stream on a second engine, ministack, and on Valkey
	@server=$${PAGEMARK_REDIS_SERVER:-$$(sh scripts/ensure-valkey.sh)}; \
	[ -z "$$server" ] || export PAGEMARK_REDIS_SERVER="$$server"; \
	tests=$$(sh scripts/tests-on-ministack.sh) || exit 1; \
	PAGEMARK_TEST_ENGINE=ministack \
	    cargo test --locked --workspace --test guarantees -- $$tests --include-ignored

# A hundred schedules are in `make test`. `make simulate SEED=7` repeats one, and prints what happened. `BUGS=1` finds the
# planted bugs, or the one that `BUG` names.
simulate: tools ## Simulate the whole system under faults: SEEDS=10000 schedules from FROM=0 on
	PAGEMARK_SIMULATE_SEEDS=$(or $(SEEDS),1000) PAGEMARK_SIMULATE_FROM=$(FROM) PAGEMARK_SIMULATE_SEED=$(SEED) \
	PAGEMARK_SIMULATE_WITHOUT=$(WITHOUT) PAGEMARK_SIMULATE_CHANGES=$(CHANGES) PAGEMARK_SIMULATE_BUG=$(BUG) \
	PAGEMARK_SIMULATE_BUGS=$(BUGS) \
	    cargo test --locked --profile checked --workspace --test guarantees -- simulator:: --nocapture

# A smaller exploration is in `make test`.
prove: tools ## Explore the model of the page index's markers: a million states, and the traces of its planted bugs
	PAGEMARK_PROVE=1 cargo test --locked --workspace --lib -- protocol_model --nocapture --test-threads 1

# PAGEMARK=FILE names a built `pagemark`. Without it, one that checks itself is built.
SOAKED := $(or $(PAGEMARK),$(TARGET)/checked/pagemark)

soak: tools redis faketime ## Run a stack under faults, on real things: SECONDS=3600, SEED=7; as root also with a full disk
	$(if $(PAGEMARK),,cargo build --locked --profile checked --bin pagemark)
	PAGEMARK_SOAK_SECONDS=$(SECONDS) PAGEMARK_SOAK_SEED=$(SEED) PAGEMARK_TEST_PAGEMARK=$(abspath $(SOAKED)) \
	    cargo test --locked --profile checked --workspace --test guarantees -- soak:: --include-ignored --nocapture

# All measured programs in one command: cargo then gives the dependencies one set of features and compiles them once.
BENCH_BUILD := cargo build --locked --profile deployed --package bench --package api --package repair-job --package local-stack
BENCH := $(TARGET)/deployed/bench
BENCH_RUNS := $(TARGET)/bench/runs

# For PostgreSQL's programs, which Debian does not put on the PATH.
BENCH_PATH := PATH="$$PATH:$$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)"

# A part is merged into the earlier runs. A failed measurement does not keep the next run from starting. With a base, each
# of the rounds runs both revisions.
bench: tools redis postgres ab ## Measure everything, RUNS=5 times, or NAME=index,api; see target/bench/runs/1/report.md; with BASE=REV beside that revision
ifdef BASE
	@$(BENCH_PATH) BASE="$(BASE)" BUILD="$(BENCH_BUILD)" NAME="$(NAME)" RUNS=$(or $(RUNS),5) sh scripts/bench-revisions.sh
else
	$(BENCH_BUILD)
	$(if $(NAME),,rm -rf $(BENCH_RUNS))
	export $(BENCH_PATH); \
	status=0; for run in $$(seq $(or $(RUNS),1)); do \
	    $(BENCH) --folder $(BENCH_RUNS)/$$run $(if $(NAME),--only $(NAME)) || status=1; \
	done; exit $$status
endif

bench-publish: ## Keep the last runs in bench/results, and write their figures into the documents and plots
	$(BENCH) publish $(BENCH_RUNS)/*/report.json

lighthouse: tools redis browser ## Measure pages with Lighthouse, as on a phone
	cargo build --locked --release --bin pagemark
	@sh scripts/lighthouse.sh

screenshots: tools browser ## Make the pictures of a page that the README shows
	cargo build --locked --profile local --package local-stack
	@sh scripts/screenshots.sh

package: tools ## Make what is deployed, for ARCH=arm64 (or x86_64, host): zips of the functions, the files of the image of API and repair job
	@sh scripts/package.sh

package-pagemark: tools ## Make the files of the image of the single-machine edition, for ARCH=arm64 (or x86_64, host)
	@sh scripts/package.sh pagemark

smoke: tools ## Prove the deployment in a real account: STACK=smoke-NAME; asks before it costs anything (docs/deploy.md)
	@sh scripts/smoke.sh $(STACK)

fmt: tools ## Format the code
	cargo fmt --all

lint: tools ## Lints only
	cargo clippy --locked --workspace --all-targets -- -D warnings

doc: tools ## Build the documentation of all crates
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps

tools:
	@sh scripts/ensure-compiler.sh

redis:
	@sh scripts/ensure-redis.sh

postgres:
	@sh scripts/ensure-postgres.sh

ab:
	@sh scripts/ensure-ab.sh

faketime:
	@sh scripts/ensure-faketime.sh

python-tools:
	@sh scripts/ensure-jq.sh
	@sh scripts/ensure-python-tools.sh
	@sh scripts/ensure-python-tools.sh scripts/aws-cli.txt aws-cli
	@sh scripts/ensure-python-tools.sh scripts/ca-certificates.txt ca-certificates

ministack:
	@sh scripts/ensure-python-tools.sh scripts/ministack.txt ministack

cargo-deny:
	@sh scripts/ensure-cargo-deny.sh

web-servers:
	@sh scripts/ensure-web-servers.sh

browser:
	@sh scripts/ensure-chromium.sh
	@sh scripts/ensure-java.sh
	@sh scripts/ensure-node-tools.sh
