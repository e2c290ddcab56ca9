# Read by scripts that look at the demo: starts it as `make run` does, on a free port, and ends it with the script. Sets
# `target`, and `base`, the URL of its pages. PROFILE is the build that runs.
target=${CARGO_TARGET_DIR:-target}
printed=$(mktemp)
"$target/$PROFILE/pagemark" up --demo --listen 127.0.0.1:0 --dynamodb-listen 127.0.0.1:0 >"$printed" &
stack=$!
trap 'kill "$stack"; wait "$stack" || true; rm -f "$printed"' EXIT
until grep -q '^Pagemark is ready' "$printed"; do
    kill -0 "$stack" || exit 1
    sleep 0.2
done
base=$(sed -n 's/^ *pages *\(.*\)\/$/\1/p' "$printed")

# Runs a script of tests/browser, with its input.
in_browser() {
    "$target/node-tools/node" --preserve-symlinks --preserve-symlinks-main "$target/node-tools/browser/$1"
}
