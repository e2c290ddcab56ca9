#!/bin/sh
# Writes the certificate authorities that the image trusts to the file given as the first argument. They are Mozilla's,
# in the version that scripts/ca-certificates.txt pins, independent of what the build machine trusts.
set -eu
cd "$(dirname "$0")/.."

sh scripts/ensure-python-tools.sh scripts/ca-certificates.txt ca-certificates
python=${CARGO_TARGET_DIR:-target}/ca-certificates/bin/python
cp "$("$python" -m certifi)" "$1"
