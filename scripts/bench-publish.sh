#!/bin/sh
# Copies the report of the last runs (target/bench) to docs/benchmarks.md, with its plots.
set -eu
report=$1
[ -f "$report/report.md" ] || { echo "There is no $report/report.md: run make bench first." >&2; exit 1; }
mkdir -p docs/benchmarks
rm -f docs/benchmarks/*.svg
cp "$report"/plots/*.svg docs/benchmarks/
{
    echo "<!-- Written by 'make bench-publish' from the report of a run. -->"
    echo
    sed 's#(plots/#(benchmarks/#' "$report/report.md"
    echo
    echo "[Notes on the measurements](benchmarks-notes.md) explain some of these figures and say what was tried."
} > docs/benchmarks.md
echo "docs/benchmarks.md and docs/benchmarks/*.svg are the report in $report"
