#!/bin/sh
# Ensures that MariaDB's programs mariadbd, mariadb-install-db and mariadb are installed. The measurements start a
# separate server and keep the ranks of comments in it.
set -eu
. "$(dirname "$0")/system-packages.sh"

# Debian keeps the server in /usr/sbin, which is not on every user's PATH.
PATH=$PATH:/usr/sbin
have_mariadb() {
    for program in mariadbd mariadb-install-db mariadb; do
        command -v "$program" >/dev/null 2>&1 || return 1
    done
}
have_mariadb || install_packages "MariaDB" mariadb-server mariadb-server "mariadb mariadb-client" mariadb
