#!/bin/sh
# DuckDB 1.1.3 and 2.0.1: a column of JSON Lines or CSV whose first rows are whole numbers is read as BIGINT. A fraction
# in a later row is then rounded without an error or a warning, and the two readers round the same 4.5 to different
# numbers. DuckDB looks at 20,480 rows; `sample_size=-1` looks at all, and then the column is DOUBLE.
#
# Seen: 30,000 ratings, of which the last 5,000 are 4.5. JSON Lines: BIGINT, the least is 4. CSV: BIGINT, the least is 5.
# With sample_size=-1: DOUBLE and 4.5 from both.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >try.py <<'PYTHON'
import duckdb

ratings = ["5" if row < 25_000 else "4.5" for row in range(30_000)]
with open("r.jsonl", "w") as file:
    file.writelines(f'{{"id":"{row:06}","rating":{rating}}}\n' for row, rating in enumerate(ratings))
with open("r.csv", "w") as file:
    file.writelines(f"{line}\n" for line in ["rating", *ratings])
expected = {
    "read_json('r.jsonl')": ("BIGINT", 4),
    "read_csv('r.csv')": ("BIGINT", 5),
    "read_json('r.jsonl', sample_size=-1)": ("DOUBLE", 4.5),
    "read_csv('r.csv', sample_size=-1)": ("DOUBLE", 4.5),
}
for reader, wanted in expected.items():
    seen = duckdb.sql(f"SELECT typeof(rating), min(rating) FROM {reader} GROUP BY 1").fetchall()
    print(duckdb.__version__, reader, seen)
    if seen != [wanted]:
        raise SystemExit(f"changed: {reader} was {wanted}")
PYTHON
for version in 1.1.3 2.0.1; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet "duckdb==$version" >&2
    "$version/bin/python" try.py
done
