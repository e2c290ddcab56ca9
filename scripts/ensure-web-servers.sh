#!/bin/sh
# Ensures that nginx and Apache are installed: tests put Pagemark behind both, with the lines of docs/pages.md.
set -eu
. "$(dirname "$0")/system-packages.sh"

PATH=$PATH:/usr/sbin
command -v nginx >/dev/null 2>&1 || install_packages "nginx" nginx-light nginx nginx nginx
command -v apache2 >/dev/null 2>&1 || command -v httpd >/dev/null 2>&1 ||
    install_packages "Apache" apache2 httpd "apache2 apache2-proxy" httpd
