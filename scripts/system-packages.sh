# Sourced by the scripts that ensure that a program is installed.
#
# PAGEMARK_INSTALL=no forbids installing system packages. Otherwise packages are installed by Homebrew, as root, or with
# sudo if it needs no password. If sudo needs a password and the script runs on a terminal, the script asks the user
# first.

# The system's package manager; empty for an unknown one.
package_manager() {
    for manager in apt-get dnf apk brew; do
        if command -v "$manager" >/dev/null 2>&1; then
            echo "$manager"
            return
        fi
    done
}

# Runs the package manager for the given packages.
run_package_manager() {
    case $(package_manager) in
    apt-get)
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
        ;;
    dnf) $as_root dnf install -y -q "$@" ;;
    apk) $as_root apk add --no-cache "$@" ;;
    brew) brew install --quiet "$@" ;;
    esac
}

# The command that a person types to install the given packages.
line_to_type() {
    case $(package_manager) in
    apt-get | dnf) echo "sudo $(package_manager) install $*" ;;
    apk) echo "sudo apk add $*" ;;
    brew) echo "brew install $*" ;;
    esac
}

# Sets as_root to the prefix that a command needs to run as root. Fails where installing is forbidden or impossible.
may_install() {
    as_root=
    [ "${PAGEMARK_INSTALL:-yes}" != no ] || return 1
    [ "$(package_manager)" != brew ] && [ "$(id -u)" -ne 0 ] || return 0
    as_root="sudo -n"
    ! sudo -n true 2>/dev/null || return 0
    # Without a terminal, the user cannot answer.
    [ -t 0 ] && [ -t 2 ] && command -v sudo >/dev/null 2>&1 || return 1
    as_root=sudo
    printf '%s is missing. Run "%s"? [y/N] ' "$what" "$packages_line" >&2
    read -r answer
    case $answer in [yY]*) ;; *) return 1 ;; esac
}

# install_packages WHAT DEBIAN FEDORA ALPINE HOMEBREW: installs WHAT. The other arguments are its package names in each
# package manager; spaces separate several names. On failure it prints the command to type.
install_packages() {
    what=$1
    case $(package_manager) in
    apt-get) packages=$2 ;;
    dnf) packages=$3 ;;
    apk) packages=$4 ;;
    brew) packages=$5 ;;
    *) packages= ;;
    esac
    if [ -z "$packages" ]; then
        echo "$what is missing. Install it with your system's package manager." >&2
        return 1
    fi
    # shellcheck disable=SC2086 # one word a package
    packages_line=$(line_to_type $packages)
    if may_install; then
        echo "installing $what: $packages" >&2
        log=$(mktemp)
        # shellcheck disable=SC2086
        if run_package_manager $packages >"$log" 2>&1 </dev/null; then
            rm -f "$log"
            return 0
        fi
        echo "That failed; the end of what the package manager printed ($log):" >&2
        tail -n 5 "$log" >&2
    fi
    echo "$what is missing. Type:" >&2
    echo >&2
    echo "    $packages_line" >&2
    echo >&2
    return 1
}
