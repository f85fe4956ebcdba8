#!/bin/sh
# Corral's installer. Needs git and a Python (3.10 or newer) with nothing added; touches neither the system's Python nor its packages.
#
#   ./install.sh [REPO]         install the `corral` command and the Claude Code plugin for this user; prepare REPO if given
#   ./install.sh --demo         show a batch of tasks landing, in a temporary folder; add --claude for real Claude Code workers
#   ./install.sh --test         run every check and test
#   ./install.sh --uninstall    take back what the first form did
#
# Safe to run again at any time.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
data=${XDG_DATA_HOME:-$HOME/.local/share}/corral
bin=$HOME/.local/bin

say() { printf '%s\n' "$*"; }
die() { printf 'install.sh: %s\n' "$1" >&2; shift; for line in "$@"; do printf '  %s\n' "$line" >&2; done; exit 1; }

usage() { sed -n '4,9s/^# \{0,1\}//p' "$0"; }

find_python() {
    for candidate in ${CORRAL_PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 python3.14 python; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    die "no Python 3.10 or newer was found." "Install one (for example: apt install python3), or name it: CORRAL_PYTHON=/path/to/python3 ./install.sh"
}

check_needs() {
    command -v git >/dev/null 2>&1 || die "git was not found." "Install it (for example: apt install git) and run this again."
    python=$(find_python)
    "$python" -c 'import sqlite3, ssl' 2>/dev/null || die "$python lacks its sqlite3 or ssl module." \
        "Use a complete Python: CORRAL_PYTHON=/path/to/python3 ./install.sh"
}

# A Python without pip: take pip's own wheel from the package index and let it fetch virtualenv into a temporary folder.
bootstrap_virtualenv() {
    "$python" - "$1" <<'PY'
import configparser, html.parser, os, pathlib, re, sys, urllib.parse, urllib.request

def index():
    url = os.environ.get("PIP_INDEX_URL")
    home = pathlib.Path.home()
    for file in ("/etc/pip.conf", home / ".pip/pip.conf", home / ".config/pip/pip.conf"):
        parser = configparser.RawConfigParser()
        parser.read(file)
        url = url or parser.get("global", "index-url", fallback=None)
    return (url or "https://pypi.org/simple").rstrip("/")

class Links(html.parser.HTMLParser):
    found = None
    def handle_starttag(self, tag, attrs):
        link = dict(attrs).get("href") if tag == "a" else None
        if link and re.search(r"/pip-[0-9.]+-py3-none-any\.whl(#|$)", link):
            self.found = link

page = index() + "/pip/"
links = Links()
links.feed(urllib.request.urlopen(page, timeout=60).read().decode())
if not links.found:
    sys.exit(f"no pip wheel at {page}")
url = urllib.parse.urljoin(page, links.found)
name = pathlib.PurePosixPath(urllib.parse.urlsplit(url).path).name
(pathlib.Path(sys.argv[1]) / name).write_bytes(urllib.request.urlopen(url, timeout=120).read())
PY
}

# make_venv DIR: an environment of its own at DIR, by uv, else venv, else virtualenv from the package index.
make_venv() {
    [ -x "$1/bin/python" ] && "$1/bin/python" -c '' 2>/dev/null && return
    rm -rf "$1"
    mkdir -p "$(dirname "$1")"
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python "$python" "$1"
    elif "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        "$python" -m venv "$1"
    else
        say "This Python has no venv; fetching virtualenv ..."
        tools=$(mktemp -d)
        if "$python" -m pip --version >/dev/null 2>&1; then
            "$python" -m pip install --quiet --disable-pip-version-check --target "$tools/site" virtualenv || fetched=no
        else
            bootstrap_virtualenv "$tools" || fetched=no
            [ "${fetched:-}" = no ] || "$python" "$tools"/pip-*.whl/pip install --quiet --disable-pip-version-check --target "$tools/site" virtualenv || fetched=no
        fi
        if [ "${fetched:-}" = no ] || ! PYTHONPATH="$tools/site" "$python" -m virtualenv --quiet "$1"; then
            rm -rf "$tools" "$1"
            die "no environment could be made: $python has neither venv nor pip, and virtualenv could not be fetched." \
                "Install one of: uv, python3-venv (for example: apt install python3-venv); or allow access to a package index."
        fi
        rm -rf "$tools"
    fi
}

# install_into DIR ARGS...: install packages into that environment.
install_into() {
    venv=$1
    shift
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$venv/bin/python" "$@"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi || die "the packages could not be installed." "Check the access to a package index (PIP_INDEX_URL), then run this again."
}

install_plugin() {
    if ! command -v claude >/dev/null 2>&1; then
        say "claude was not found: install Claude Code, then run ./install.sh again for the plugin."
        return
    fi
    bundle=$("$data/venv/bin/corral" plugin path)
    claude plugin marketplace remove corral >/dev/null 2>&1 || true
    if claude plugin marketplace add "$bundle" >/dev/null 2>&1 && claude plugin install corral@corral --scope user >/dev/null 2>&1; then
        say "plugin:  installed for every session of this user (a repository without .corral is left alone)"
    else
        say "plugin:  could not be installed; start sessions with: claude --plugin-dir $bundle"
    fi
}

install_for_user() {
    check_needs
    say "Installing into $data ..."
    make_venv "$data/venv"
    install_into "$data/venv" --upgrade "$here"
    mkdir -p "$bin"
    if [ -e "$bin/corral" ] && [ "$(readlink "$bin/corral" 2>/dev/null)" != "$data/venv/bin/corral" ]; then
        die "$bin/corral exists and is not this installer's." "Move it away, then run this again."
    fi
    ln -sf "$data/venv/bin/corral" "$bin/corral"
    say "command: $bin/corral ($("$bin/corral" --version))"
    install_plugin
    case ":$PATH:" in *":$bin:"*) ;; *) say "Add $bin to your PATH: export PATH=\"$bin:\$PATH\"" ;; esac
    if [ -n "${1:-}" ]; then
        "$bin/corral" init "$1"
    else
        say "Next: go into a repository and run \`corral init\`."
    fi
}

uninstall_for_user() {
    if command -v claude >/dev/null 2>&1; then
        claude plugin uninstall corral@corral --scope user >/dev/null 2>&1 || true
        claude plugin marketplace remove corral >/dev/null 2>&1 || true
    fi
    [ "$(readlink "$bin/corral" 2>/dev/null)" != "$data/venv/bin/corral" ] || rm -f "$bin/corral"
    rm -rf "$data/venv"
    rmdir "$data" 2>/dev/null || true
    say "Corral is uninstalled. In a repository that still has .corral/, \`corral uninstall\` should have been run first; it can be"
    say "run from a new installation at any time."
}

demo() {
    check_needs
    say "Preparing (once) ..."
    make_venv "$here/.venv"
    install_into "$here/.venv" --editable "$here"
    exec "$here/.venv/bin/corral" demo "$@"
}

tests() {
    check_needs
    make_venv "$here/.venv"
    install_into "$here/.venv" --editable "$here[test]"
    cd "$here"
    exec "$here/.venv/bin/python" -m tests.run "$@"
}

case "${1:-}" in
    --demo) shift; demo "$@" ;;
    --test) shift; tests "$@" ;;
    --uninstall) uninstall_for_user ;;
    -h | --help) usage ;;
    -*) usage >&2; die "unknown option: $1" ;;
    *) install_for_user "${1:-}" ;;
esac
