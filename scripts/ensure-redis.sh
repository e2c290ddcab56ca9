#!/bin/sh
# Sees to it that redis-server (or valkey-server, which does as well) can be run. On a continuous-integration machine
# (CI=true) that allows it, it is installed; on anybody's own machine nothing is installed unasked: the line to type is
# printed instead.
set -eu
. "$(dirname "$0")/packages.sh"

if [ -n "${PAGEMARK_REDIS_SERVER:-}" ]; then
    command -v "$PAGEMARK_REDIS_SERVER" >/dev/null 2>&1 && exit 0
    echo "PAGEMARK_REDIS_SERVER is $PAGEMARK_REDIS_SERVER, which is not a program." >&2
    exit 1
fi

have_server() {
    command -v redis-server >/dev/null 2>&1 || command -v valkey-server >/dev/null 2>&1
}

# The scripts of the page index need Redis 7. Every Valkey knows what they need.
check_version() {
    command -v redis-server >/dev/null 2>&1 || return 0
    version=$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
    [ "${version:-0}" -ge 7 ] && return 0
    echo "redis-server is too old ($(redis-server --version)); Pagemark needs Redis 7.0 or newer, or Valkey." >&2
    echo "Name one by PAGEMARK_REDIS_SERVER; https://redis.io/docs/latest/operate/oss_and_stack/install/ tells how to get it." >&2
    exit 1
}

have_server && check_version && exit 0

install_server() {
    if command -v brew >/dev/null 2>&1; then
        brew install redis
    elif ! can_be_root; then
        return 1
    elif command -v apt-get >/dev/null 2>&1; then
        install_debian redis-server
    elif command -v dnf >/dev/null 2>&1; then
        # Fedora's newer releases have Valkey in the place of Redis.
        as_root dnf install -y -q valkey || as_root dnf install -y -q redis
    elif command -v apk >/dev/null 2>&1; then
        as_root apk add --no-cache redis
    else
        return 1
    fi
}

if [ "${CI:-}" = true ]; then
    echo "redis-server was not found; installing it" >&2
    # The package manager's chatter is no result of ours.
    install_server >&2 </dev/null || true
    have_server && check_version && exit 0
fi

if command -v apt-get >/dev/null 2>&1; then
    line="sudo apt-get install redis-server"
elif command -v dnf >/dev/null 2>&1; then
    line="sudo dnf install valkey"
elif command -v apk >/dev/null 2>&1; then
    line="sudo apk add redis"
elif command -v brew >/dev/null 2>&1; then
    line="brew install redis"
else
    line="your system's package manager for redis (https://redis.io/docs/latest/operate/oss_and_stack/install/)"
fi
cat >&2 <<END
redis-server was not found. Type:

    $line

or name a redis-server elsewhere by PAGEMARK_REDIS_SERVER.
END
exit 1
