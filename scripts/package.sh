#!/bin/sh
# Makes what is deployed, in target/package: a zip for each Lambda function, and the API's binary beside what its image is
# built from (infra/Containerfile). Prints their sizes.
#
# ARCH=arm64 (as the template has it), x86_64, or host: for this machine, by plain cargo, in the profile PROFILE.
set -eu
cd "$(dirname "$0")/.."

arch=${ARCH:-arm64}
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-target}
out=$target/package
functions="stream-writer page-indexer repair-job"

# Static binaries: neither Lambda's nor the image's C library matters.
case $arch in
arm64) triple=aarch64-unknown-linux-musl ;;
x86_64) triple=x86_64-unknown-linux-musl ;;
host) triple= ;;
*)
    echo "ARCH is $arch; it takes arm64, x86_64 or host" >&2
    exit 1
    ;;
esac

packages="--package api"
for function in $functions; do packages="$packages --package $function"; done
if [ -n "$triple" ]; then
    # Zig is the C compiler and linker for any processor; both come as Python packages.
    sh scripts/ensure-python-tools.sh scripts/package-tools.txt package-tools
    PATH=$(cd "$target/package-tools/bin" && pwd):$PATH
    # cargo-zigbuild takes the default toolchain unless it is told which.
    RUSTUP_TOOLCHAIN=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    export RUSTUP_TOOLCHAIN
    rustup target add "$triple" >/dev/null 2>&1 || {
        echo "Rust's standard library for $triple is missing, and rustup could not add it: rustup target add $triple" >&2
        exit 1
    }
    # shellcheck disable=SC2086 # one word a package
    cargo zigbuild --profile "$profile" --target "$triple" --bins $packages
else
    # The whole workspace is named, so that dependencies have the features that they have in the tests.
    cargo build --profile "$profile" --workspace --bin api $(for function in $functions; do echo --bin "$function"; done)
fi
folder=$target/${triple:+$triple/}$([ "$profile" = dev ] && echo debug || echo "$profile")

# What is not deployed need not be small.
level=$([ "$profile" = release ] && echo 9 || echo 1)

rm -rf "$out"
mkdir -p "$out/api"
for function in $functions; do
    # The program of a custom runtime is called bootstrap. The same binary makes the same zip.
    python3 - "$folder/$function" "$out/$function.zip" "$level" <<'PYTHON'
import sys, zipfile
entry = zipfile.ZipInfo("bootstrap", date_time=(1980, 1, 1, 0, 0, 0))
entry.compress_type = zipfile.ZIP_DEFLATED
entry.create_system = 3
entry.external_attr = 0o100755 << 16
with open(sys.argv[1], "rb") as binary, zipfile.ZipFile(sys.argv[2], "w") as zip:
    zip.writestr(entry, binary.read(), compresslevel=int(sys.argv[3]))
PYTHON
done
cp "$folder/api" infra/Containerfile "$out/api/"
# The authorities that the API trusts: the image has no other files.
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    if [ -e "$bundle" ]; then
        cp -L "$bundle" "$out/api/ca-certificates.crt"
        break
    fi
done
[ -e "$out/api/ca-certificates.crt" ] || { echo "no certificates of authorities were found; install ca-certificates" >&2; exit 1; }

echo "for $arch, in $out:"
for function in $functions; do
    printf '  %-20s %6.1f MiB, unpacked %6.1f MiB\n' "$function.zip" \
        "$(wc -c <"$out/$function.zip" | awk '{print $1/1048576}')" "$(wc -c <"$folder/$function" | awk '{print $1/1048576}')"
done
printf '  %-20s %6.1f MiB, the whole of its image but for the certificates\n' api/api "$(wc -c <"$out/api/api" | awk '{print $1/1048576}')"
