#!/usr/bin/env bash
# Counts the instructions of each workload with callgrind and compares them with benches/record/instructions.txt.
# `--record` writes that file. Counts depend on the compiler, so another rustc than that of the record is only reported.
# Valgrind has no AVX-512: the code that picks its instructions at run time takes AVX2 here.
set -euo pipefail
cd "$(dirname "$0")/.."
record=benches/record/instructions.txt
percent=3
workloads=(w1 w2 w3 w4 w5 q5 q7 ysb early_count)

if ! command -v valgrind >/dev/null; then
    apt-get install --yes --quiet valgrind >/dev/null 2>&1 || { echo "no valgrind here, and no way to install it: instructions are not counted"; exit 0; }
fi

compiler=$(rustc --version)
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
cargo bench --quiet -p highwater-bench --bench instructions --no-run
{
    echo "# instructions of 200,000 rows, all batches pushed and finished; $compiler"
    for workload in "${workloads[@]}"; do
        export "CARGO_TARGET_${host}_RUNNER=valgrind --tool=callgrind --collect-atstart=no --toggle-collect=*counted_run* --callgrind-out-file=$out/$workload"
        cargo bench --quiet -p highwater-bench --bench instructions -- "$workload" 2>"$out/log" || { cat "$out/log" >&2; exit 1; }
        echo "$workload $(sed -n 's/^.*Collected : *//p' "$out/log")"
    done
} >"$out/counts"

if [ "${1:-}" = --record ]; then
    cp "$out/counts" "$record"
    cat "$record"
    exit
fi
if [ "$(sed -n 1p "$out/counts")" != "$(sed -n 1p "$record")" ]; then
    echo "recorded with another compiler; not compared:"
    sed -n 1p "$record"
    cat "$out/counts"
    exit
fi
awk -v percent="$percent" '
    /^#/ { next }
    NR == FNR { recorded[$1] = $2; next }
    !($1 in recorded) { printf "%-11s %12d instructions, not recorded\n", $1, $2; far = 1; next }
    {
        change = 100 * ($2 / recorded[$1] - 1)
        printf "%-11s %12d instructions, recorded %12d: %+.1f %%\n", $1, $2, recorded[$1], change
        if (change > percent || change < -percent) far = 1
    }
    END {
        if (far) {
            printf "more than %s %% from the record: find out why, or record anew with benches/instructions.sh --record\n", percent
            exit 1
        }
    }' "$record" "$out/counts"
