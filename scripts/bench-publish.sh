#!/bin/sh
# Writes docs/benchmarks.md with its appendix, plots and reports from the last runs (target/bench/runs).
set -eu
bench=$1
runs=$2
if ! [ -x "$bench" ] || ! [ -f "$runs/1/report.json" ]; then
    echo "There is no $bench or no $runs/1/report.json: run make bench RUNS=5 first." >&2
    exit 1
fi
if [ "${LOADED:-}" = yes ]; then
    exec "$bench" page --into docs "$runs"/*/report.json
fi
"$bench" page --publishable --into docs "$runs"/*/report.json || {
    echo "make bench-publish LOADED=yes publishes loaded or quick runs nevertheless." >&2
    exit 1
}
