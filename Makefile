# The commands of the project. `.ci/run` and the README call the same ones.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
TEST_LOG := $(TARGET_DIR)/test.log
SEEDS ?= 1000
ROUNDS ?= 40

.PHONY: help test quick tools check fmt lint unit docs bench bench-peers sim torture upgrade-test dist test-dist run deny clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# One after the other even under `make -j`: cargo would wait for its own lock anyway,
# and the counts must be the last thing printed.
test: ## everything a change must pass: tools, format, clippy, all tests with counts
	@scripts/install-test-tools
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit

# The features are those of `unit`, so that nothing is compiled twice.
quick: check ## a first check of a change: format, rules, stores in memory and SQLite, the map; no broker
	cargo test --workspace --all-features --lib --bins --test tidy --test properties --test workflows \
		--test memory_conformance --test sqlite_conformance

tools: ## install what the tests need and is missing
	@scripts/install-test-tools

check: ## fail if a file is not formatted
	cargo fmt --all --check

fmt: ## format every file
	cargo fmt --all

lint: ## clippy on every target and feature, and the pages of the crates, warnings denied
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features --quiet

# The counts are printed for a failing run too, which then fails. `--no-fail-fast`
# keeps them complete: otherwise cargo stops at the first binary with a failure.
unit: ## all tests and doc tests, those of the SDKs too, then the counts
	@mkdir -p $(TARGET_DIR)
	@tests=passed; \
	cargo test --workspace --all-features --no-fail-fast 2>&1 | tee $(TEST_LOG) || tests=failed; \
	scripts/test-sdks 2>&1 | tee -a $(TEST_LOG) || tests=failed; \
	scripts/count-tests $(TEST_LOG) && [[ $$tests == passed ]]

docs: ## write the documentation as a static site to target/site
	cargo run --quiet -- docs --build $(TARGET_DIR)/site

bench: ## run the benchmarks
	cargo bench --workspace --all-features

bench-peers: ## measure beside other job servers, fetched from their registries
	bench/peers/run

sim: ## run the simulator over SEEDS seeds (default 1000)
	cargo run --release -p forgerun-sim -- --seeds $(SEEDS)

# A round takes about a minute and a quarter.
torture: ## three real nodes in a bad network for ROUNDS rounds (default 40), then ten minutes of kills
	FORGERUN_TORTURE_ROUNDS=$(ROUNDS) cargo test --workspace --all-features --test it -- hostile_network --nocapture
	cargo run --release -- prove --history $(TARGET_DIR)/prove.jsonl --report $(TARGET_DIR)/prove.html
	cd bench/check && go run . $(abspath $(TARGET_DIR)/prove.jsonl)

upgrade-test: ## this version beside the last release on one database; builds the release first
	@scripts/upgrade-test

dist: ## build all packages of a release into target/dist
	@scripts/dist/compile
	@rm -rf $(TARGET_DIR)/dist
	@scripts/dist/pack --binary $(TARGET_DIR)/portable/forgerun --out $(TARGET_DIR)/dist

# Not part of `make test`: a release build takes five minutes.
test-dist: ## install each package of target/dist in a clean place, and use it
	@scripts/dist/test

run: ## start the server for a first look
	cargo run --release -- dev

deny: ## check advisories, licences and sources of dependencies (needs cargo-deny)
	cargo deny check

clean: ## remove what was built
	cargo clean
