#!/bin/sh
# Ensures that redis-server 7.0 or newer, or valkey-server, is installed. PAGEMARK_REDIS_SERVER names a different one.
set -eu
. "$(dirname "$0")/system-packages.sh"

if [ -n "${PAGEMARK_REDIS_SERVER:-}" ]; then
    command -v "$PAGEMARK_REDIS_SERVER" >/dev/null 2>&1 && exit 0
    echo "PAGEMARK_REDIS_SERVER is $PAGEMARK_REDIS_SERVER, which is not a program." >&2
    exit 1
fi

# The scripts of the page index need Redis 7. Every Valkey version suffices.
check_version() {
    command -v redis-server >/dev/null 2>&1 || return 0
    version=$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
    [ "${version:-0}" -ge 7 ] && return 0
    echo "redis-server is too old ($(redis-server --version)); Pagemark needs Redis 7.0 or newer, or Valkey." >&2
    echo "Name one by PAGEMARK_REDIS_SERVER; https://redis.io/docs/latest/operate/oss_and_stack/install/ describes how to get it." >&2
    exit 1
}

if ! command -v redis-server >/dev/null 2>&1 && ! command -v valkey-server >/dev/null 2>&1; then
    install_packages "redis-server" redis-server valkey redis redis || {
        echo "or name a redis-server elsewhere by PAGEMARK_REDIS_SERVER." >&2
        exit 1
    }
fi
check_version
