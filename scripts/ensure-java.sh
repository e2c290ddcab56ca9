#!/bin/sh
# Ensures that Java is installed: the Nu HTML Checker runs on it.
set -eu
. "$(dirname "$0")/system-packages.sh"

# The oldest version with which the checker is tested here.
java_least=17

command -v java >/dev/null 2>&1 || install_packages "Java $java_least" default-jre-headless java-latest-openjdk-headless \
    "openjdk$java_least-jre-headless" "openjdk@$java_least"
# 17.0.15, 21, and 1.8.0 for the version commonly called 8.
java_version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
if [ "${java_version:-0}" -lt "$java_least" ]; then
    echo "java is too old ($(java -version 2>&1 | head -n 1)); install version $java_least or newer." >&2
    exit 1
fi
