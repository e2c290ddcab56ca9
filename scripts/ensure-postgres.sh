#!/bin/sh
# Ensures that PostgreSQL's programs postgres and initdb are installed. The measurements start a separate server and
# compare with it. PAGEMARK_POSTGRES_BIN names a folder with different ones.
set -eu
. "$(dirname "$0")/system-packages.sh"

has_both() {
    [ -x "$1/postgres" ] && [ -x "$1/initdb" ]
}

if [ -n "${PAGEMARK_POSTGRES_BIN:-}" ]; then
    has_both "$PAGEMARK_POSTGRES_BIN" && exit 0
    echo "PAGEMARK_POSTGRES_BIN is $PAGEMARK_POSTGRES_BIN, where postgres and initdb are not." >&2
    exit 1
fi

# Debian keeps the programs of each version in a separate folder, which is not on the PATH.
have_postgres() {
    command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1 && return 0
    for folder in /usr/lib/postgresql/*/bin; do
        has_both "$folder" && return 0
    done
    return 1
}

# PostgreSQL refuses to run as root. Then it runs as the user that its packages create.
check_user() {
    [ "$(id -u)" -ne 0 ] || id -u postgres >/dev/null 2>&1 && return 0
    echo "PostgreSQL does not run as root, and there is no user postgres to run it as." >&2
    exit 1
}

if ! have_postgres; then
    install_packages "PostgreSQL" postgresql postgresql-server postgresql postgresql || {
        echo "or name the folder of its programs by PAGEMARK_POSTGRES_BIN." >&2
        exit 1
    }
fi
check_user
