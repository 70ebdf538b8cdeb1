#!/bin/sh
# Installs the newest release of ForgeRun for this user, without root:
#
#   sh install.sh                      # to ~/.local/bin, with manual pages and completions under ~/.local/share
#   sh install.sh --base-url URL       # from another place that holds the files of a release
#   sh install.sh --prefix DIR         # somewhere else than ~/.local
#   sh install.sh --uninstall          # removes what it installed; never jobs
#
# It downloads SHA256SUMS and one archive, and installs nothing whose sum is wrong. FORGERUN_DOWNLOAD_URL is the same as --base-url.
set -eu

base_url=${FORGERUN_DOWNLOAD_URL:-@DOWNLOAD_URL@}
prefix=$HOME/.local
action=install

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

usage() {
    echo "usage: install.sh [--base-url URL] [--prefix DIR] [--uninstall]"
}

while [ $# -gt 0 ]; do
    case $1 in
        --base-url | --prefix)
            [ $# -ge 2 ] || { usage >&2; exit 2; }
            if [ "$1" = --prefix ]; then prefix=$2; else base_url=$2; fi
            shift 2
            ;;
        --uninstall) action=uninstall; shift ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done

case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
# What was installed, one path per line.
list=$prefix/share/forgerun/installed

uninstall() {
    [ -e "$list" ] || fail "nothing to remove: $list does not exist"
    while IFS= read -r path; do
        case $path in
            "$prefix"/*) rm -f "$path" ;;
        esac
    done < "$list"
    rm -f "$list"
    rmdir "$prefix/share/forgerun" 2> /dev/null || true
}

platform() {
    system=$(uname -s)
    machine=$(uname -m)
    case $machine in
        x86_64 | amd64) machine=x86_64 ;;
        aarch64 | arm64) machine=aarch64 ;;
        *) fail "there is no binary for $machine; build it from source" ;;
    esac
    case $system in
        Linux)
            # glibc says its version here; musl and others do not know the name. Without a new enough one, the static binary does.
            glibc=$(getconf GNU_LIBC_VERSION 2> /dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
            if [ "${glibc:-0}" -ge 28 ]; then libc=gnu; else libc=musl; fi
            echo "$machine-unknown-linux-$libc"
            ;;
        Darwin) echo "$machine-apple-darwin" ;;
        *) fail "there is no binary for $system; build it from source" ;;
    esac
}

download() {
    if command -v curl > /dev/null 2>&1; then
        curl --fail --silent --show-error --location --retry 2 --output "$2" "$1"
    elif command -v wget > /dev/null 2>&1; then
        wget --quiet --output-document="$2" "$1"
    else
        fail "neither curl nor wget is here"
    fi || fail "could not download $1"
}

sum() {
    if command -v sha256sum > /dev/null 2>&1; then
        sha256sum "$1"
    elif command -v shasum > /dev/null 2>&1; then
        shasum -a 256 "$1"
    else
        fail "neither sha256sum nor shasum is here: the download cannot be checked"
    fi | cut -d ' ' -f 1
}

# Copies a file and notes it.
put() {
    mkdir -p "$(dirname "$2")"
    # A program that runs cannot be overwritten, but it can be replaced.
    cp "$1" "$2.new"
    chmod "$3" "$2.new"
    mv -f "$2.new" "$2"
    echo "$2" >> "$folder/installed"
}

if [ "$action" = uninstall ]; then
    uninstall
    echo "forgerun is removed from $prefix. Jobs, in the folders that servers were given, are left alone."
    exit 0
fi

case $base_url in
    http://* | https://*) ;;
    *) fail "this copy does not know where releases are: give --base-url" ;;
esac
base_url=${base_url%/}
target=$(platform)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM HUP

download "$base_url/SHA256SUMS" "$folder/SHA256SUMS"
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(forgerun-[0-9A-Za-z.+-]*-$target\.tar\.gz\)\$/\1/p" "$folder/SHA256SUMS" | head -n 1)
[ -n "$archive" ] || fail "the release at $base_url has no binary for $target"
expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$folder/SHA256SUMS")
download "$base_url/$archive" "$folder/$archive"
[ "$(sum "$folder/$archive")" = "$expected" ] || fail "$archive is damaged: its sum is not that of SHA256SUMS. Nothing was installed"

tar -xzf "$folder/$archive" -C "$folder"
from=$folder/${archive%.tar.gz}
version=$("$from/forgerun" --version) || fail "the binary does not run on this machine. Nothing was installed"

: > "$folder/installed"
put "$from/forgerun" "$prefix/bin/forgerun" 755
put "$from/LICENSE" "$prefix/share/doc/forgerun/LICENSE" 644
put "$from/THIRD-PARTY.txt" "$prefix/share/doc/forgerun/THIRD-PARTY.txt" 644
for page in "$from"/man/man1/*.1; do
    put "$page" "$prefix/share/man/man1/$(basename "$page")" 644
done
put "$from/completions/forgerun.bash" "$prefix/share/bash-completion/completions/forgerun" 644
put "$from/completions/_forgerun" "$prefix/share/zsh/site-functions/_forgerun" 644
put "$from/completions/forgerun.fish" "$prefix/share/fish/vendor_completions.d/forgerun.fish" 644
mkdir -p "$(dirname "$list")"
if [ -e "$list" ]; then
    # Pages of commands that the new version does not have.
    grep -Fxv -f "$folder/installed" "$list" > "$folder/superfluous" || true
    while IFS= read -r path; do
        case $path in
            "$prefix"/*) rm -f "$path" ;;
        esac
    done < "$folder/superfluous"
fi
cp "$folder/installed" "$list"

echo "$version is installed as $prefix/bin/forgerun"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "It is not on your PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "Next: forgerun dev        # a server on this machine, to try it out"
