#!/bin/sh
# Corral's installer. Needs git and a Python (3.10 or newer) with nothing added; touches neither the system's Python nor its packages.
#
#   ./install.sh [REPO [OPTION…]]   install the `corral` command and the Claude Code plugin for this user; with REPO,
#                                   run `corral init REPO OPTION…` too (--yes: do not ask)
#   ./install.sh --demo [--claude]  show a batch of tasks landing, in a temporary folder; --claude: with real Claude Code workers
#   ./install.sh --test             run the checks and the tests; --quick: fewer, in two minutes; --all: also the long ones
#   ./install.sh --uninstall        take back what the first form did
#
# CORRAL_PYTHON=/path/to/python3 names the Python to use. Safe to run again at any time.
set -eu

say() { printf '%s\n' "$*"; }
die() { printf 'install.sh: %s\n' "$1" >&2; shift; for line in "$@"; do printf '  %s\n' "$line" >&2; done; exit 1; }

[ -n "${HOME:-}" ] || die "HOME is not set." "Set it to your home folder, then run this again."
here=$(cd "$(dirname "$0")" && pwd -P)
data=${XDG_DATA_HOME:-$HOME/.local/share}/corral
bin=$HOME/.local/bin
manual=${XDG_DATA_HOME:-$HOME/.local/share}/man/man1

usage() { sed -n '4,10s/^# \{0,1\}//p' "$0"; }

is_supported() { command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

find_python() {
    if [ -n "${CORRAL_PYTHON:-}" ]; then
        is_supported "$CORRAL_PYTHON" || die "CORRAL_PYTHON is $CORRAL_PYTHON, which is no Python 3.10 or newer."
        command -v "$CORRAL_PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
        if is_supported "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    die "no Python 3.10 or newer was found." "Install one (for example: apt install python3), or name it: CORRAL_PYTHON=/path/to/python3 ./install.sh"
}

check_needs() {
    command -v git >/dev/null 2>&1 || die "git was not found." "Install git 2.38 or newer (for example: apt install git) and run this again."
    git_version=$(git version | sed 's/^git version \([0-9]*\.[0-9]*\).*/\1/')
    if [ "${git_version%.*}" -lt 2 ] || { [ "${git_version%.*}" -eq 2 ] && [ "${git_version#*.}" -lt 38 ]; }; then
        die "git $git_version is too old." "Install git 2.38 or newer and run this again."
    fi
    python=$(find_python)
    "$python" -c 'import sqlite3, ssl' 2>/dev/null || die "$python lacks its sqlite3 or ssl module." \
        "Use a complete Python: CORRAL_PYTHON=/path/to/python3 ./install.sh"
}

# bootstrap_pip DIR: a Python without pip takes pip's own wheel from the package index; a wheel of pip can be run as it is.
bootstrap_pip() {
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

# make_venv DIR: an environment with pip at DIR, by venv, else by virtualenv from the package index.
make_venv() {
    rm -rf "$1"
    mkdir -p "$(dirname "$1")"
    if "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        "$python" -m venv "$1"
        return
    fi
    say "This Python has no venv; fetching virtualenv ..."
    tools=$(mktemp -d)
    if ! { fetch_virtualenv "$tools" && PYTHONPATH="$tools/site" "$python" -m virtualenv --quiet "$1"; }; then
        rm -rf "$tools" "$1"
        die "no environment could be made: $python has no venv, and virtualenv could not be fetched." \
            "Install one of: uv, python3-venv (for example: apt install python3-venv); or allow access to a package index."
    fi
    rm -rf "$tools"
}

fetch_virtualenv() {
    if "$python" -m pip --version >/dev/null 2>&1; then
        set -- "$1" -m pip
    else
        bootstrap_pip "$1" || return 1
        set -- "$1" "$(echo "$1"/pip-*.whl)/pip"
    fi
    tools_dir=$1
    shift
    PIP_ROOT_USER_ACTION=ignore "$python" "$@" install --quiet --disable-pip-version-check --target "$tools_dir/site" virtualenv
}

# install_into DIR ARGS...: install packages into an environment of its own at DIR, by uv where there is one, else by pip.
install_into() {
    venv=$1
    shift
    if command -v uv >/dev/null 2>&1; then
        if { "$venv/bin/python" -c '' 2>/dev/null || uv venv --quiet --clear --python "$python" "$venv"; } \
            && uv pip install --quiet --python "$venv/bin/python" --reinstall-package corral "$@"; then
            return
        fi
        say "uv could not install the packages; trying pip ..."
    fi
    "$venv/bin/python" -c 'import pip' 2>/dev/null || make_venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" \
        || die "the packages could not be installed." "Check the access to a package index (PIP_INDEX_URL), then run this again."
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
    say "Installing into $data (a minute or two) ..."
    install_into "$data/venv" --upgrade "$here"
    mkdir -p "$bin"
    if { [ -e "$bin/corral" ] || [ -L "$bin/corral" ]; } && [ "$(readlink "$bin/corral" 2>/dev/null)" != "$data/venv/bin/corral" ]; then
        die "$bin/corral exists and is not this installer's." "Move it away, then run this again."
    fi
    ln -sf "$data/venv/bin/corral" "$bin/corral"
    say "command: $bin/corral ($("$bin/corral" -C / --version))"
    "$bin/corral" man --write "$manual" >/dev/null || say "The manual pages could not be written into $manual."
    install_plugin
    case ":$PATH:" in *":$bin:"*) ;; *) say "Add $bin to your PATH: export PATH=\"$bin:\$PATH\"" ;; esac
    if [ $# -gt 0 ]; then
        "$bin/corral" init "$@"
    else
        say "Next: go into a repository and run \`corral init\`."
    fi
}

# Daemons that run from this installation would go on without their files: take back the units that start them, stop each the
# regular way, and say where it was.
# One that an older version started has the name corral.server.
stop_daemons() {
    "$data/venv/bin/python" - "$data/venv" <<'PY' || true
import contextlib, json, os, pathlib, subprocess, sys
import psutil

venv = sys.argv[1]
state = pathlib.Path(os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state")
for record in (state / "corral" / "services").glob("*.json"):
    unit = json.loads(record.read_text())
    file = pathlib.Path(unit["file"])
    if file.is_file() and f"{venv}/bin/" not in file.read_text(errors="replace"):
        continue  # it runs another installation
    print(f"Stopping the daemon of {unit['root']} (its .corral folder stays), and taking back its unit ...", flush=True)
    done = subprocess.run([f"{venv}/bin/corral", "-C", unit["root"], "daemon", "uninstall"], stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        print(f"The unit of {unit['root']} stays: {unit['file']}", flush=True)
for process in psutil.process_iter():
    with contextlib.suppress(psutil.Error):
        line = process.cmdline()
        if line[:1] == [f"{venv}/bin/python"] and line[1:2] == ["-m"] and line[2:4] in (["corral.daemon", "--project"], ["corral.server", "--project"]):
            print(f"Stopping the daemon of {line[4]} (its .corral folder stays) ...", flush=True)
            subprocess.run([f"{venv}/bin/corral", "-C", line[4], "daemon", "stop"], stdout=subprocess.DEVNULL)
PY
}

# What `corral --install-completion` wrote: a file of its own for each shell, and the line that reads it.
remove_completion() {
    "$data/venv/bin/python" - <<'PY' || true
from pathlib import Path

home = Path.home()
bash, zsh = home / ".bash_completions" / "corral.sh", home / ".zfunc" / "_corral"
reads = {home / ".bashrc": (bash, f"source '{bash}'"), home / ".zshrc": (zsh, "fpath+=~/.zfunc; autoload -Uz compinit; compinit")}
for file in (bash, zsh, home / ".config" / "fish" / "completions" / "corral.fish"):
    if not file.is_file():
        continue
    file.unlink()
    if not any(file.parent.iterdir()):
        file.parent.rmdir()
    for startup, (read, line) in reads.items():
        # Other programs share the line of zsh: it goes when nothing is left for it to read.
        if read != file or not startup.is_file() or (file == zsh and file.parent.exists()):
            continue
        text = startup.read_text(encoding="utf-8", errors="surrogateescape")
        kept = "".join(one for one in text.splitlines(keepends=True) if one.strip() != line)
        if kept.strip():
            startup.write_text(kept, encoding="utf-8", errors="surrogateescape")
        elif kept != text:
            startup.unlink()
PY
}

uninstall_for_user() {
    if command -v claude >/dev/null 2>&1; then
        claude plugin uninstall corral@corral --scope user >/dev/null 2>&1 || true
        claude plugin marketplace remove corral >/dev/null 2>&1 || true
    fi
    if [ -x "$data/venv/bin/python" ]; then
        stop_daemons
        remove_completion
    fi
    [ "$(readlink "$bin/corral" 2>/dev/null)" != "$data/venv/bin/corral" ] || rm -f "$bin/corral"
    for page in "$manual"/corral.1 "$manual"/corral-*.1; do
        first=
        [ ! -f "$page" ] || IFS= read -r first < "$page" || true
        [ "$first" != '.\" Written by corral man' ] || rm -f "$page"
    done
    rmdir "$manual" "${manual%/*}" 2>/dev/null || true
    rm -rf "$data/venv"
    rmdir "$data" 2>/dev/null || true
    # What was approved for repositories is asked again by a new installation.
    state=${XDG_STATE_HOME:-$HOME/.local/state}/corral
    rm -f "$state/trust.json" "$state/trust.lock"
    rmdir "$state/services" "$state" 2>/dev/null || true
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/corral
    rm -rf "$cache/templates"
    rmdir "$cache" 2>/dev/null || true
    say "Corral is uninstalled. In a repository that still has .corral/, \`corral uninstall\` should have been run first; it can be"
    say "run from a new installation at any time."
}

demo() {
    check_needs
    say "Preparing (once) ..."
    install_into "$here/.venv" --editable "$here"
    # The package runs from the clone, which keeps no bytecode of it.
    PYTHONDONTWRITEBYTECODE=1 exec "$here/.venv/bin/corral" demo "$@"
}

tests() {
    check_needs
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
    *) install_for_user "$@" ;;
esac
