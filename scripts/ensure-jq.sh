#!/bin/sh
# Ensures that curl and jq are installed, which scripts/smoke.sh uses.
set -eu
. "$(dirname "$0")/system-packages.sh"

command -v curl >/dev/null 2>&1 && command -v jq >/dev/null 2>&1 ||
    install_packages "curl or jq" "curl jq" "curl jq" "curl jq" "curl jq"
