#!/usr/bin/env bash
# Everything that must hold before a change lands; CI runs this too. `./check.sh fast` stops after the tests.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '\n== %s\n' "$*"; }

step format
cargo fmt --all --check

step lints
cargo clippy --workspace --all-targets --quiet -- -D warnings

step docs
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step tests
cargo test

[ "${1:-}" = fast ] && exit 0

step "benches, each once"
cargo bench --quiet -p highwater-bench -- --test

step "instructions, compared with the record"
benches/instructions.sh

step "fuzz targets, each for a moment"
cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked --quiet
for target in duration aggregate specification event_time operations snapshot; do
    cargo +nightly fuzz run --sanitizer none "$target" -- -max_total_time=15 -rss_limit_mb=4096 -verbosity=0
done

printf '\nall good\n'
