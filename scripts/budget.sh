#!/bin/sh
# Holds the budget of size (docs/adr/0085): counts tracked files, prints a line for each part, and fails if one is over
# its limit. A change that needs more room takes it from somewhere else.
#
# A line of Rust is a test's if its file lies under tests/ or is named tests.rs, or from `#[cfg(test)]` before a `mod`
# with a body to the end of its file. Everything under bench/ counts as bench. `file` is the longest file.
set -eu
cd "$(dirname "$0")/.."
counted=$(mktemp)
trap 'rm -f "$counted"' EXIT

git ls-files '*.rs' | xargs awk '
    FNR == 1 {
        last = ""
        part = "product"
        if (FILENAME ~ /^bench\//) part = "bench"
        else if (FILENAME ~ /(^|\/)tests\// || FILENAME ~ /(^|\/)tests\.rs$/) part = "tests"
    }
    part == "product" && last ~ /^#\[cfg\(test\)\]/ && /^(pub(\(crate\))? )?mod [a-z_0-9]+ \{/ {
        lines["product"]--
        lines["tests"]++
        part = "tests"
    }
    { lines[part]++; last = $0 }
    FNR > longest { longest = FNR }
    part == "product" {
        text = $0
        while (match(text, /"PAGEMARK_[A-Z_]+"/)) {
            settings[substr(text, RSTART, RLENGTH)] = 1
            text = substr(text, RSTART + RLENGTH)
        }
    }
    END {
        for (part in lines) print part, lines[part]
        for (setting in settings) number++
        print "settings", number
        print "file", longest
    }' >"$counted"
{
    cat "$counted"
    echo words "$(git ls-files -z '*.md' | xargs -0 cat | wc -w)"
    echo adrs "$(git ls-files 'docs/adr/*.md' ':!docs/adr/README.md' | wc -l)"
    echo template "$(wc -l <infra/template.yaml)"
    echo folders "$(git ls-files | awk -F/ 'NF > 1 && !/^\./ { print $1 }' | sort -u | wc -l)"
} | awk '
    BEGIN {
        limits = "product 35000 tests 30000 bench 6500 words 35000 adrs 30 settings 40 file 700 template 2200 folders 11"
        count = split(limits, words, " ")
        for (i = 1; i < count; i += 2) limit[words[i]] = words[i + 1]
    }
    {
        over = $2 > limit[$1]
        printf "%-9s %7d of %d%s\n", $1, $2, limit[$1], over ? "  OVER" : ""
        failed = failed || over
    }
    END { exit failed }'
