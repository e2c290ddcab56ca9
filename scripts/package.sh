#!/bin/sh
# Builds what runs elsewhere in target/package or the folder OUT, and prints the sizes:
#
# - `package.sh` makes the deployment: a zip for each Lambda function, and the files of the image of API and repair job
#   (infra/Containerfile).
# - `package.sh pagemark` makes the files of the image of the single-machine edition (infra/pagemark.Containerfile).
#
# ARCH is arm64 (as in the template), x86_64, or host. `host` builds for this machine with plain cargo in the profile
# PROFILE. A host build may need this machine's C library. Such a program cannot run in the image, which is then left
# out.
set -eu
cd "$(dirname "$0")/.."

arch=${ARCH:-arm64}
profile=${PROFILE:-deployed}
target=${CARGO_TARGET_DIR:-target}
out=${OUT:-$target/package}
case ${1:-deployment} in
deployment) functions="stream-writer page-indexer repair-job" image=api in_image="api repair-job" containerfile=Containerfile ;;
pagemark) functions="" image=pagemark in_image=pagemark containerfile=pagemark.Containerfile ;;
*)
    echo "package.sh makes the deployment, or pagemark, not $1" >&2
    exit 1
    ;;
esac

# Build static binaries, so that the C libraries of Lambda and the image do not matter.
case $arch in
arm64) triple=aarch64-unknown-linux-musl ;;
x86_64) triple=x86_64-unknown-linux-musl ;;
host) triple= ;;
*)
    echo "ARCH is $arch; it takes arm64, x86_64 or host" >&2
    exit 1
    ;;
esac

# A program's package has its name, but the package of `pagemark` is the local stack.
packages=$(for program in $functions $in_image; do echo "--package $program"; done | sort -u | sed s/pagemark/local-stack/)
programs=$(for program in $functions $in_image; do echo "--bin $program"; done | sort -u)
if [ -n "$triple" ]; then
    # Zig serves as C compiler and linker for every processor. Zig and cargo-zigbuild come as Python packages. Scanners
    # of zips and images read the list of crates that each program holds.
    sh scripts/ensure-python-tools.sh scripts/package-tools.txt package-tools
    sh scripts/ensure-cargo-auditable.sh
    PATH=$(cd "$target/package-tools/bin" && pwd):$(cd "$target/cargo-auditable/bin" && pwd):$PATH
    # cargo-zigbuild uses the default toolchain unless this variable names another.
    RUSTUP_TOOLCHAIN=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    export RUSTUP_TOOLCHAIN
    rustup target add "$triple" >/dev/null 2>&1 || {
        echo "Rust's standard library for $triple is missing, and rustup could not add it: rustup target add $triple" >&2
        exit 1
    }
    # shellcheck disable=SC2086 # one word a package
    cargo auditable zigbuild --locked --profile "$profile" --target "$triple" $programs $packages
else
    # Name the whole workspace, so that dependencies have the same features as in the tests.
    # shellcheck disable=SC2086 # one word a program
    cargo build --locked --profile "$profile" --workspace $programs
fi
folder=$target/${triple:+$triple/}$([ "$profile" = dev ] && echo debug || echo "$profile")

# Files that are not deployed need not be small.
level=$([ "$profile" = deployed ] && echo 9 || echo 1)

mkdir -p "$out"
rm -rf "${out:?}/$image"
roots=$out/amazon-roots.pem
[ -z "$functions" ] || sh scripts/ca-certificates.sh amazon "$roots"
for function in $functions; do
    # The program of a custom runtime must be named bootstrap. Equal binaries give equal zips.
    python3 - "$folder/$function" "$roots" "$out/$function.zip" "$level" <<'PYTHON'
import sys, zipfile
program, roots, out, level = sys.argv[1:]
with zipfile.ZipFile(out, "w") as zip:
    for name, mode, source in [("bootstrap", 0o755, program), ("amazon-roots.pem", 0o644, roots)]:
        entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3
        entry.external_attr = (0o100000 | mode) << 16
        with open(source, "rb") as file:
            zip.writestr(entry, file.read(), compresslevel=int(level))
PYTHON
done

# The image has no other files, so only a static binary starts in it.
for program in $in_image; do
    needed=$(python3 scripts/elf_interpreter.py "$folder/$program" 2>/dev/null || echo "another system")
    if [ -n "$needed" ]; then
        not_in_image="$program needs $needed"
        [ "$arch" = host ] || { echo "$folder: $not_in_image, and would not start in its image" >&2; exit 1; }
        in_image=
        break
    fi
done
if [ -n "$triple" ]; then
    for program in $functions $in_image; do
        python3 scripts/elf_dependencies.py "$folder/$program" >/dev/null
    done
fi
if [ -n "$in_image" ]; then
    mkdir "$out/$image"
    cp "infra/$containerfile" "$out/$image/Containerfile"
    for program in $in_image; do cp "$folder/$program" "$out/$image/"; done
    sh scripts/ca-certificates.sh all "$out/$image/ca-certificates.crt"
    [ -z "$functions" ] || cp "$roots" "$out/$image/"
    # It becomes the place of the data, with the right owner.
    [ "$image" != pagemark ] || mkdir "$out/$image/data"
fi

echo "for $arch, in $out:"
for function in $functions; do
    printf '  %-20s %6.1f MiB, unpacked %6.1f MiB\n' "$function.zip" \
        "$(wc -c <"$out/$function.zip" | awk '{print $1/1048576}')" "$(wc -c <"$folder/$function" | awk '{print $1/1048576}')"
done
for program in $in_image; do
    printf '  %-20s %6.1f MiB, static, in the image\n' "$image/$program" "$(wc -c <"$out/$image/$program" | awk '{print $1/1048576}')"
done
[ -n "$in_image" ] || echo "  no image: $not_in_image"
