#!/bin/sh
# Ensures that ApacheBench (ab) is installed. A measurement repeats a published test with it.
set -eu
. "$(dirname "$0")/system-packages.sh"

command -v ab >/dev/null 2>&1 || install_packages "ApacheBench" apache2-utils httpd-tools apache2-utils httpd
