#!/bin/sh
# Ensures that nginx, Apache, Varnish, HAProxy, Caddy and PHP are installed. Tests put Pagemark behind these servers, with the lines of
# docs/pages.md. They run the shop's server in PHP, docs/shop.
set -eu
. "$(dirname "$0")/system-packages.sh"

PATH=$PATH:/usr/sbin
command -v nginx >/dev/null 2>&1 || install_packages "nginx" nginx-light nginx nginx nginx
command -v apache2 >/dev/null 2>&1 || command -v httpd >/dev/null 2>&1 ||
    install_packages "Apache" apache2 httpd "apache2 apache2-proxy" httpd
command -v varnishd >/dev/null 2>&1 || install_packages "Varnish" varnish varnish varnish varnish
command -v haproxy >/dev/null 2>&1 || install_packages "HAProxy" haproxy haproxy haproxy haproxy
command -v caddy >/dev/null 2>&1 || install_packages "Caddy" caddy caddy caddy caddy
command -v php >/dev/null 2>&1 || install_packages "PHP" php-cli php-cli php php
