#!/bin/sh
# Sees to it that PostgreSQL's programs postgres and initdb can be run: the measurements compare with it. No server has to
# run: they start one of their own. On a continuous-integration machine (CI=true) that allows it, it is installed; on
# anybody's own machine nothing is installed unasked: the line to type is printed instead.
set -eu
. "$(dirname "$0")/packages.sh"

has_both() {
    [ -x "$1/postgres" ] && [ -x "$1/initdb" ]
}

if [ -n "${PAGEMARK_POSTGRES_BIN:-}" ]; then
    has_both "$PAGEMARK_POSTGRES_BIN" && exit 0
    echo "PAGEMARK_POSTGRES_BIN is $PAGEMARK_POSTGRES_BIN, where postgres and initdb are not." >&2
    exit 1
fi

# Debian keeps the programs of each version in a folder of its own, which is not on the PATH.
have_postgres() {
    command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1 && return 0
    for folder in /usr/lib/postgresql/*/bin; do
        has_both "$folder" && return 0
    done
    return 1
}

# PostgreSQL refuses to run as root; then it runs as a user whom its packages make.
check_user() {
    [ "$(id -u)" -ne 0 ] || id -u postgres >/dev/null 2>&1 && return 0
    echo "PostgreSQL does not run as root, and there is no user postgres to run it as." >&2
    exit 1
}

have_postgres && check_user && exit 0

install_postgres() {
    if command -v brew >/dev/null 2>&1; then
        brew install postgresql
    elif ! can_be_root; then
        return 1
    elif command -v apt-get >/dev/null 2>&1; then
        install_debian postgresql
    elif command -v dnf >/dev/null 2>&1; then
        as_root dnf install -y -q postgresql-server
    elif command -v apk >/dev/null 2>&1; then
        as_root apk add --no-cache postgresql
    else
        return 1
    fi
}

if [ "${CI:-}" = true ]; then
    echo "PostgreSQL was not found; installing it" >&2
    # The package manager's chatter is no result of ours.
    install_postgres >&2 </dev/null || true
    have_postgres && check_user && exit 0
fi

if command -v apt-get >/dev/null 2>&1; then
    line="sudo apt-get install postgresql"
elif command -v dnf >/dev/null 2>&1; then
    line="sudo dnf install postgresql-server"
elif command -v apk >/dev/null 2>&1; then
    line="sudo apk add postgresql"
elif command -v brew >/dev/null 2>&1; then
    line="brew install postgresql"
else
    line="your system's package manager for postgresql (https://www.postgresql.org/download/)"
fi
cat >&2 <<END
PostgreSQL was not found. Type:

    $line

or name the folder of its programs by PAGEMARK_POSTGRES_BIN.
END
exit 1
