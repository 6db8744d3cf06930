#!/usr/bin/env bash
# Measures Highwater beside what one would use instead, on the same data in the same run, and writes benches/record/DATE-peers.md.
set -euo pipefail

usage() {
    cat <<'END'
Usage: benches/peers/run.sh [OPTIONS]

Sets up virtual environments, builds, generates the data, checks that all answers agree, measures, and
writes benches/record/DATE-peers.md. What is already set up or generated is used again.

  --scale X          share of the rows to measure with [default: 1, which is 50M for w1 and w4, else 20M]
  --workloads LIST   [default: w1,w2,w3,w4,w5,q5,q7,ysb]
  --peers LIST       [default: duckdb,clickhouse,datafusion,polars,flink,handrolled]; Highwater always runs
  --threads LIST     [default: 1,2]
  --reps N           processes for each engine and workload, the engines taking turns [default: 3]
  --home DIR         where everything is kept [default: benches/peers/_work]
  --check-only       stop after the check
  -h, --help

Needs Python 3.11 or later with pip, Java 17 with javac, cargo, 16 GiB of memory and 15 GB of disk at full scale.
HIGHWATER=PATH takes that program instead of building one.
END
}

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
scale=1 reps=3 home=$here/_work check_only=
workloads=w1,w2,w3,w4,w5,q5,q7,ysb peers=duckdb,clickhouse,datafusion,polars,flink,handrolled thread_counts=1,2
command=benches/peers/run.sh
while [ $# -gt 0 ]; do
    [ "$1" = --home ] || command+=" $1 ${2:-}"
    case $1 in
    --scale) scale=$2 ;;
    --workloads) workloads=$2 ;;
    --peers) peers=$2 ;;
    --threads) thread_counts=$2 ;;
    --reps) reps=$2 ;;
    --home) home=$2 ;;
    --check-only) check_only=1 && shift && continue ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift 2
done
IFS=, read -ra workloads <<<"$workloads"
IFS=, read -ra peers <<<"highwater,$peers"
IFS=, read -ra thread_counts <<<"$thread_counts"
mkdir -p "$home"
home=$(cd "$home" && pwd)
python=$home/batch/bin/python
check_rows=1000000
bound=61000      # no row of the data is later than 60 s: nothing is late, and all engines have the same answer
short_bound=20000 # stragglers are late

step() { printf '\n== %s\n' "$*" >&2; }

stream() { # the data that a workload reads
    case $1 in q5 | q7) echo nexmark ;; *) echo "$1" ;; esac
}

environment() { # environment NAME PIP_ARGUMENTS...
    local name=$1
    shift
    [ -e "$home/$name/ready" ] && return
    python3 -m venv "$home/$name"
    "$home/$name/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$home/$name/ready"
}

build() {
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
    if [ -z "${HIGHWATER:-}" ]; then
        cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p highwater-cli
        HIGHWATER=$CARGO_TARGET_DIR/release/highwater
    fi
    RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release --manifest-path "$here/handrolled/Cargo.toml" \
        --target-dir "$CARGO_TARGET_DIR/handrolled"
    handrolled=$CARGO_TARGET_DIR/handrolled/release/handrolled
}

generate() { # generate STREAM ROWS DIR
    local dir=$3/$1 campaigns=()
    [ "$(cat "$dir/complete" 2>/dev/null)" = "$2" ] && return
    mkdir -p "$dir"
    rm -f "$dir"/*
    [ "$1" = ysb ] && campaigns=("$dir/campaigns.arrow")
    "$HIGHWATER" generate "$1" --rows "$2" --out "$dir/rows.arrow" ${campaigns:+--campaigns "${campaigns[@]}"}
    "$python" "$here/columns.py" "$dir/rows.arrow" "${campaigns[@]}"
    echo "$2" >"$dir/complete"
}

flink_form() { # the fastest form of a workload: flink_form WORKLOAD THREADS -> form and parallelism
    case $1-$2 in
    w4-*) echo sql "$2" ;;
    q7-*) echo windowall 1 ;; # not keyed: it has one window operator whatever the parallelism
    q5-*) echo keyby "$2" ;;
    *-1) echo reinterpret 1 ;;
    *) echo keyby "$2" ;;
    esac
}

# One process of one engine, pinned, which prints one line of JSON: run PEER WORKLOAD THREADS RUNS BOUND DATA [RESULT, without extension]
run() {
    local peer=$1 workload=$2 threads=$3 runs=$4 bound=$5 data result=${7:-} form parallelism
    data=$6/$(stream "$workload")
    local pinned=(taskset -c "0-$((threads - 1))")
    case $peer in
    highwater)
        local options=(--no-check --threads "$threads") # check.py compares the answers
        [ "$threads" -gt 1 ] && options+=(--partitions 8)
        [ "$workload" = ysb ] && options+=(--campaigns "$data/campaigns.arrow")
        "${pinned[@]}" "$HIGHWATER" bench "$workload" --input "$data/rows.arrow" --bound "${bound}ms" --runs "$runs" --json \
            "${options[@]}" ${result:+--out "$result.arrow"}
        ;;
    handrolled)
        "${pinned[@]}" "$handrolled" "$workload" "$data" "$threads" "$runs" "$bound" ${result:+"$result.csv"}
        ;;
    flink)
        read -r form parallelism < <(flink_form "$workload" "$threads")
        "${pinned[@]}" "$here/flink/run.sh" "$home" "$workload" "$data" "$parallelism" "$form" "$runs" "$bound" ${result:+"$result.csv"} \
            | sed "s/^{/{\"threads\": $threads, /"
        ;;
    *)
        "${pinned[@]}" "$python" "$here/batch.py" "$peer" "$workload" "$data" --threads "$threads" --runs "$runs" ${result:+--out "$result.parquet"}
        ;;
    esac
}

attempt() { # like run, but a failure is only noted
    if ! run "$@" 2>"$home/stderr.txt"; then
        echo "FAILED    $2 $1 with $3 threads: $(tail -n 1 "$home/stderr.txt")" | tee -a "$home/failures.txt" >&2
    fi
}

check() {
    rm -rf "$home/check"
    for workload in "${workloads[@]}"; do
        local answers=$home/check/$workload
        mkdir -p "$answers/late"
        for peer in "${peers[@]}"; do
            for t in "${thread_counts[@]}"; do
                attempt "$peer" "$workload" "$t" 1 $bound "$home/data/check" "$answers/$peer-t$t" >/dev/null
            done
            case $workload-$peer in
            q*) ;;
            *-highwater | *-handrolled | *-flink)
                attempt "$peer" "$workload" "${thread_counts[0]}" 1 $short_bound "$home/data/check" "$answers/late/$peer-t${thread_counts[0]}" >/dev/null
                ;;
            esac
        done
    done
    "$python" "$here/check.py" "$home/check" "$home/data/check" "${workloads[@]}" | tee "$home/check.txt"
}

measure() { # the engines take turns, so that a slow spell of the machine meets them all
    : >"$home/results.jsonl"
    uptime | sed 's/.*load average: //' >"$home/load.txt"
    for workload in "${workloads[@]}"; do
        for ((rep = 1; rep <= reps; rep++)); do
            for t in "${thread_counts[@]}"; do
                for peer in "${peers[@]}"; do
                    attempt "$peer" "$workload" "$t" 3 $bound "$home/data/measure" | tee -a "$home/results.jsonl" | cut -c 1-180
                done
            done
        done
    done
}

step "virtual environments"
environment batch -r "$here/requirements.txt"
environment flink --no-deps apache-flink-libraries==2.3.0 # the jars are all that is needed
step build
build
"$here/flink/run.sh" "$home"
: >"$home/failures.txt"
step data
for workload in "${workloads[@]}"; do
    case $workload in w1 | w4) full=50000000 ;; *) full=20000000 ;; esac
    generate "$(stream "$workload")" $check_rows "$home/data/check"
    [ -n "$check_only" ] || generate "$(stream "$workload")" "$(awk "BEGIN { printf \"%d\", $full * $scale }")" "$home/data/measure"
done
step "check: the first $check_rows rows"
check
if [ -n "$check_only" ]; then
    [ ! -s "$home/failures.txt" ]
    exit
fi
step measure
measure
step report
"$python" "$here/report.py" "$home" "$root/benches/record" "$command"
[ ! -s "$home/failures.txt" ]
