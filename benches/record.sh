#!/usr/bin/env bash
# Measures every bench and every workload, and writes benches/record/<date>-operator.md and <date>-bench.md. Leave the machine alone meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
day=$(date -u +%F)
mkdir -p benches/record

about() {
    echo "Made by \`benches/record.sh\` at commit $(git rev-parse --short HEAD) with $(rustc --version)."
    echo "Machine: $(nproc) cores of $(lscpu | sed -n 's/^Model name: *//p'), shared with others."
}

out="benches/record/$day-bench.md"
cargo build --release --quiet -p highwater-cli
bench=(target/release/highwater bench)
{
    echo "# \`highwater bench\`, $day"
    echo
    about
    echo "Medians of five runs; \"of limit\" is the share of a scan of the columns in the same run."
    echo
    echo '```console'
    for flags in "" "w1 w3 w4 --partitions 8" "w1 w3 w4 --partitions 8 --threads 2" "w1 --key-type dictionary" "w1 --key-type utf8" \
        "w4 --size 15m --slide 15m"; do
        read -ra words <<<"$flags"
        echo "$ highwater bench${flags:+ $flags}"
        "${bench[@]}" "${words[@]}"
        echo
    done
    echo '```'
} | tee "$out"
echo "wrote $out"

out="benches/record/$day-operator.md"
log=$(mktemp)
cargo bench --quiet -p highwater-bench --bench operator -- --noplot | tee "$log"
{
    echo "# Operator, one thread, $day"
    echo
    about
    echo "Estimates from 20 samples of 5 M rows (stages and gateway 2 M, growth 3 M; 10 samples of 10 M timers). \`limit\` reads the three columns and adds them up: no engine can be faster."
    echo "Share: of that limit, in the same run."
    echo
    echo "| bench | ns a row | M rows/s | share of the limit |"
    echo "|---|--:|--:|--:|"
    awk '
        /^(limit|operator|stage|growth|timers|snapshot)\// { id = $1 }
        /thrpt:.*elem\/s/ {
            rate = $(NF - 3); if ($(NF - 2) ~ /^Gelem/) rate *= 1000; if ($(NF - 2) ~ /^Kelem/) rate /= 1000
            if (id ~ /^limit/) limit = rate
            printf "| %s | %.2f | %s | %.0f %% |\n", id, 1000 / rate, sprintf(rate < 10 ? "%.2f" : "%.0f", rate), 100 * rate / limit
        }
        /thrpt:.*iB\/s/ { bytes[++snapshots] = sprintf("| %s | %s %s |", id, $(NF - 3), $(NF - 2)) }
        END {
            print "\nSnapshots, by the bytes of the file:\n\n| bench | rate |\n|---|--:|"
            for (n = 1; n <= snapshots; n++) print bytes[n]
        }' "$log"
} >"$out"
rm "$log"
echo "wrote $out"
