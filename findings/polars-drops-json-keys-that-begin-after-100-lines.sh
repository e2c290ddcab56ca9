#!/bin/sh
# Polars 1.9.0 and 2.1.0: `read_ndjson` and `scan_ndjson` know only the keys of the first 100 lines. A key that begins
# later has no column, without an error or a warning, and so has a key inside an object. pyarrow reads the same file
# whole. `infer_schema_length=None` makes Polars read it whole, too.
#
# Seen: 300 reviews, of which those from the 101st on have a title and photos. Polars: neither. pyarrow: both.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >try.py <<'PYTHON'
import json

import polars
import pyarrow.json

with open("r.jsonl", "w") as file:
    for row in range(300):
        review = {"id": row, "attributes": {"verified": True}}
        if row >= 100:
            review["title"] = "Fine"
            review["attributes"]["photos"] = ["1.jpg"]
        file.write(json.dumps(review) + "\n")


def keys(frame):
    return frame.columns, [field.name for field in frame.schema["attributes"].fields]


short = (["id", "attributes"], ["verified"])
whole = (["id", "attributes", "title"], ["verified", "photos"])
arrow = pyarrow.json.read_json("r.jsonl").schema
seen = {
    "read_ndjson": (keys(polars.read_ndjson("r.jsonl")), short),
    "scan_ndjson": (keys(polars.scan_ndjson("r.jsonl").collect()), short),
    "read_ndjson of all lines": (keys(polars.read_ndjson("r.jsonl", infer_schema_length=None)), whole),
    "pyarrow": ((arrow.names, [field.name for field in arrow.field("attributes").type]), whole),
}
for reader, (found, wanted) in seen.items():
    print(polars.__version__, reader, found)
    if found != wanted:
        raise SystemExit(f"changed: {reader} found {wanted}")
PYTHON
for version in 1.9.0 2.1.0; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet "polars==$version" pyarrow==26.0.1 >&2
    "$version/bin/python" try.py
done
