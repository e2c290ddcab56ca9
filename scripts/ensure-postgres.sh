#!/bin/sh
# Ensures that PostgreSQL's programs postgres and initdb are on the PATH. The measurements start a separate server and
# compare with it. The Makefile adds Debian's folders to the PATH.
set -eu
. "$(dirname "$0")/system-packages.sh"

have_postgres() {
    command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1 && return 0
    for folder in /usr/lib/postgresql/*/bin; do
        [ -x "$folder/postgres" ] && [ -x "$folder/initdb" ] && return 0
    done
    return 1
}

have_postgres || install_packages "PostgreSQL" postgresql postgresql-server postgresql postgresql
# PostgreSQL refuses to run as root. Then it runs as the user that its packages create.
[ "$(id -u)" -ne 0 ] || id -u postgres >/dev/null 2>&1 && exit 0
echo "PostgreSQL does not run as root, and there is no user postgres to run it as." >&2
exit 1
