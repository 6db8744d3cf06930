#!/usr/bin/env bash
# flink/run.sh HOME WORKLOAD DATA_DIR PARALLELISM FORM RUNS BOUND_MS [RESULT.csv]: one job in a JVM of its own, compiled on first use.
# HOME holds the virtual environment `flink` with Flink's jars. PEERS_JAVA_OPTIONS replaces the options of the heap.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")" && pwd)
home=$1
shift
jars=$(echo "$home"/flink/lib/python3*/site-packages/pyflink/lib)
classes=$home/flink-classes
for source in "$source_dir"/*.java; do
    if [ ! "$classes/Job.class" -nt "$source" ]; then
        mkdir -p "$classes/META-INF/services"
        # shellcheck disable=SC2016 # the $ belongs to the name of the class
        echo 'SlidingSql$Factory' >"$classes/META-INF/services/org.apache.flink.table.factories.Factory"
        javac -nowarn -Xlint:none -cp "$jars/*" -d "$classes" "$source_dir"/*.java 2>&1 | grep -v '^Note' >&2 || true
        break
    fi
done
[ $# -gt 0 ] || exit 0
# shellcheck disable=SC2086 # the options are several words
exec java ${PEERS_JAVA_OPTIONS:--Xms4g -Xmx6g} -XX:+UseParallelGC -Dlog4j2.level=OFF \
    --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.time=ALL-UNNAMED \
    -cp "$classes:$jars/*" Job "$@"
