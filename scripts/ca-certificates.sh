#!/bin/sh
# Writes certificate authorities to files. They are Mozilla's, in the version that scripts/ca-certificates.txt pins,
# independent of what the build machine trusts.
#
#   ca-certificates.sh all FILE       everything: what an image trusts
#   ca-certificates.sh amazon FILE    Amazon's: what processes trust that connect to ElastiCache (PAGEMARK_REDIS_CA)
set -eu
cd "$(dirname "$0")/.."

sh scripts/ensure-python-tools.sh scripts/ca-certificates.txt ca-certificates
python=${CARGO_TARGET_DIR:-target}/ca-certificates/bin/python
bundle=$("$python" -m certifi)
case $1 in
all) cp "$bundle" "$2" ;;
amazon)
    # Amazon Trust Services names these five as its roots. In the bundle, comments before each certificate name it.
    "$python" - "$bundle" "$2" <<'PYTHON'
import sys
roots = [f"Amazon Root CA {number}" for number in range(1, 5)] + ["Starfield Services Root Certificate Authority - G2"]
with open(sys.argv[1], encoding="utf-8") as file:
    entries = [entry + "-----END CERTIFICATE-----\n" for entry in file.read().split("-----END CERTIFICATE-----\n")[:-1]]
chosen = [entry.lstrip() for root in roots for entry in entries if f'# Label: "{root}"\n' in entry]
if len(chosen) != len(roots):
    sys.exit(f"of {roots}, the bundle has {len(chosen)}")
with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.write("\n".join(chosen))
PYTHON
    ;;
*)
    echo "ca-certificates.sh writes all or amazon, not $1" >&2
    exit 1
    ;;
esac
