#!/usr/bin/env bash
# Measures every bench and writes benches/record/<date>-operator.md. Leave the machine alone meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
out="benches/record/$(date -u +%F)-operator.md"
log=$(mktemp)
mkdir -p benches/record
cargo bench --quiet -p highwater-bench -- --noplot | tee "$log"
{
    echo "# Operator, one thread, $(date -u +%F)"
    echo
    echo "Made by \`benches/record.sh\` at commit $(git rev-parse --short HEAD) with $(rustc --version)."
    echo "Machine: $(nproc) cores of $(lscpu | sed -n 's/^Model name: *//p'), shared with others; estimates from 20 samples of 5 M rows."
    echo "\`limit\` reads the three columns and adds them up: no engine can be faster. Share: of that limit, in the same run."
    echo
    echo "| bench | ns a row | M rows/s | share of the limit |"
    echo "|---|--:|--:|--:|"
    awk '
        /^(limit|operator)\// { id = $1 }
        /thrpt:.*elem\/s/ {
            rate = $(NF - 3); if ($(NF - 2) ~ /^Gelem/) rate *= 1000
            if (id ~ /^limit/) limit = rate
            printf "| %s | %.2f | %.0f | %.0f %% |\n", id, 1000 / rate, rate, 100 * rate / limit
        }' "$log"
} >"$out"
rm "$log"
echo "wrote $out"
