"""``install.sh``: what it needs and says when that is missing, what it puts where, and that it takes all of it back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from corral import __version__
from tests.support.coordinated import Coordinated
from tests.support.files import executable, put
from tests.support.programs import program as program_of
from tests.support.service_manager import Manager

ROOT = Path(__file__).parents[2]
PLAIN_TOOLS = ("sh", "env", "cat", "sed", "mkdir", "rm", "rmdir", "ln", "readlink", "dirname", "mktemp")
PIP = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.lower().endswith("_proxy")}

Install = Callable[..., "subprocess.CompletedProcess[str]"]


def program(folder: Path, name: str, text: str) -> None:
    executable(folder / name, text)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with a plain system's tools, git and this Python; more programs may be put there, or taken away."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in (*PLAIN_TOOLS, "git"):
        (folder / name).symlink_to(program_of(name))
    program(folder, "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    return folder


@pytest.fixture
def install(sealed: Path, tools: Path, tmp_path: Path) -> Install:
    """Run install.sh with an empty HOME and only those tools."""
    home = tmp_path / "Übung mit Leerzeichen"
    home.mkdir()

    def run(
        *args: str, script: Path = ROOT / "install.sh", timeout_s: float = 60, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(script), *args],
            cwd=tmp_path,
            env={"HOME": str(home), "PATH": str(tools), "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    return run


# -- what is missing is named ---------------------------------------------------------------------------------------


def test_without_git(install: Install, tools: Path) -> None:
    (tools / "git").unlink()
    done = install("--demo")
    assert done.returncode == 1
    assert done.stderr.startswith("install.sh: git was not found.\n  Install git 2.38")


@pytest.mark.parametrize(("version", "too_old"), [("2.37.7", True), ("1.9", True), ("2.38.0", False), ("3.0", False)])
def test_with_an_old_git(install: Install, tools: Path, version: str, too_old: bool) -> None:
    (tools / "git").unlink()
    program(tools, "git", f"#!/bin/sh\necho git version {version}\n")
    (tools / "python3").unlink()
    message = install("--demo").stderr
    assert (f"git {version[:4].rstrip('.')} is too old" in message) == too_old
    assert ("no Python 3.10" in message) != too_old


def test_without_a_python_and_with_one_that_is_too_old(install: Install, tools: Path) -> None:
    program(tools, "python3", "#!/bin/sh\nexit 1\n")
    done = install("--test")
    assert done.returncode == 1
    assert "no Python 3.10 or newer was found" in done.stderr
    assert "CORRAL_PYTHON=" in done.stderr


def test_the_python_that_is_named_is_used_or_refused_but_never_replaced(install: Install, tmp_path: Path) -> None:
    done = install("--demo", CORRAL_PYTHON=str(tmp_path / "no python"))
    assert done.returncode == 1
    assert f"CORRAL_PYTHON is {tmp_path / 'no python'}, which is no Python" in done.stderr


def test_a_python_without_sqlite(install: Install, tools: Path) -> None:
    program(tools, "python3", f'#!/bin/sh\ncase "$*" in *sqlite3*) exit 1 ;; esac\nexec "{sys.executable}" "$@"\n')
    assert "lacks its sqlite3 or ssl module" in install("--demo").stderr


def test_neither_venv_nor_pip_nor_an_index(install: Install, tools: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    for name in ("ensurepip", "venv", "pip"):
        program(hidden, f"{name}.py", "raise ModuleNotFoundError(__name__)\n")
    program(tools, "python3", f'#!/bin/sh\nPYTHONPATH="{hidden}" exec "{sys.executable}" "$@"\n')
    done = install(PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert done.returncode == 1
    assert "has no venv, and virtualenv could not be fetched" in done.stderr
    assert "python3-venv" in done.stderr


def test_packages_that_cannot_be_fetched(install: Install, tmp_path: Path) -> None:
    home = tmp_path / "Übung mit Leerzeichen"
    environment = home / ".local/share/corral/venv/bin"
    environment.mkdir(parents=True)
    program(environment, "python", '#!/bin/sh\ncase "$*" in *install*) echo no index >&2; exit 1 ;; esac\n')
    done = install()
    assert done.returncode == 1
    assert "no index\ninstall.sh: the packages could not be installed" in done.stderr
    assert not (home / ".local/bin").exists()


def test_an_unknown_option_and_no_home(install: Install) -> None:
    assert "unknown option: --frob" in install("--frob").stderr
    assert "HOME is not set" in install(HOME="").stderr
    shown = install("--help").stdout
    assert all(word in shown for word in ("--demo", "--test", "--uninstall", "[REPO", "CORRAL_PYTHON"))
    assert "set -eu" not in shown


# -- what is put where, and taken back ------------------------------------------------------------------------------


@pytest.fixture
def uv(tools: Path) -> None:
    """A stand-in for uv that lends the environment of the tests: what is tried here is the installer, not an index."""
    lend = f"{sysconfig.get_paths()['purelib']}\n{ROOT / 'daemon'}"
    program(
        tools,
        "uv",
        f"""#!/bin/sh
for last; do :; done
if [ "$1" = venv ]; then
    exec "{sys.executable}" -m venv --without-pip "$last"
fi
while [ "$1" != --python ]; do shift; done
folder=$(dirname "$(dirname "$2")")
echo '{lend}' > "$(echo "$folder"/lib/python3*/site-packages)/lent.pth"
printf '#!/bin/sh\\nexec "%s" -m corral "$@"\\n' "$2" > "$folder/bin/corral"
exec env chmod 755 "$folder/bin/corral"
""",
    )
    (tools / "chmod").symlink_to(program_of("chmod"))


@pytest.fixture
def claude(tools: Path, tmp_path: Path) -> Path:
    """A stand-in for Claude Code that writes down how it was called."""
    calls = tmp_path / "calls"
    program(tools, "claude", f"#!/bin/sh\necho \"$@\" >> '{calls}'\n")
    return calls


@pytest.mark.usefixtures("uv")
def test_install_a_repository_twice_and_take_everything_back(
    install: Install, tools: Path, claude: Path, tmp_path: Path, make_repo: Callable[..., Path]
) -> None:
    home = tmp_path / "Übung mit Leerzeichen"
    repo = make_repo("ein Projekt für alle")
    for attempt in (1, 2):
        done = install(str(repo), "--yes")
        assert done.returncode == 0, done.stderr
        assert f"corral {__version__}" in done.stdout
        assert "plugin:  installed" in done.stdout
        assert f'export PATH="{home}/.local/bin:$PATH"' in done.stdout
        assert (repo / ".corral" / "config.yaml").is_file()
        pages = {file.name for file in (home / ".local" / "share" / "man" / "man1").iterdir()}
        assert {"corral.1", "corral-task-submit.1"} < pages
        assert ("Nothing to do: everything is in place." in done.stdout) == (attempt == 2)
    called = claude.read_text().splitlines()
    assert f"plugin marketplace add {ROOT}" in called
    assert "plugin install corral@corral --scope user" in called

    house = Coordinated(repo)
    try:
        command = home / ".local" / "bin" / "corral"
        env = {"HOME": str(home), "PATH": str(tools)}
        subprocess.run([command, "-C", repo, "status"], env=env, check=True, capture_output=True, timeout=60)
        (tools / "systemctl").symlink_to(Manager(tmp_path / "manager").folder / "systemctl")
        install_unit = [str(command), "-C", str(repo), "daemon", "install", "--yes"]
        subprocess.run(install_unit, env=env, check=True, capture_output=True, timeout=60)
        assert [*(home / ".config" / "systemd" / "user").iterdir()]
        unit = put(home / ".config/systemd/user/corral-other.service", 'ExecStart="/opt/corral/bin/python"\n')
        known = {"root": "/elsewhere", "name": "corral-other", "file": str(unit)}
        other = [unit, put(home / ".local/state/corral/services/other.json", json.dumps(known))]
        others = home / ".local" / "share" / "man" / "man1" / "corral-reef.1"
        others.write_text('.TH "CORRAL-REEF" "1"\n')
        done = install("--uninstall")
    finally:
        house.stop()
    assert done.returncode == 0, done.stderr
    assert [*others.parent.iterdir()] == [others], "the page of another program stays, ours are gone"
    others.unlink()
    assert "/elsewhere" not in done.stdout and [*unit.parent.iterdir()] == [unit], "another installation's unit stays"
    for file in other:
        file.unlink()
    assert f"Stopping the daemon of {repo}" in done.stdout
    assert not daemons_of(repo)
    assert install("--uninstall").returncode == 0
    assert "plugin uninstall corral@corral --scope user" in claude.read_text().splitlines()
    assert [file for file in home.rglob("*") if not file.is_dir()] == []
    assert (repo / ".corral" / "config.yaml").is_file()


def daemons_of(repo: Path) -> list[int]:
    pids = []
    for process in psutil.process_iter():
        try:
            if "corral.daemon" in process.cmdline() and str(repo) in process.cmdline():
                pids.append(process.pid)
        except psutil.Error:
            continue
    return pids


@pytest.mark.usefixtures("uv")
def test_uninstall_takes_out_the_completion_and_nothing_else_of_the_shells_files(
    install: Install, tools: Path, tmp_path: Path
) -> None:
    home = tmp_path / "Übung mit Leerzeichen"
    assert install().returncode == 0
    (home / ".bashrc").write_text("alias ll='ls -l'\n")

    subprocess.run(
        [program_of("bash"), "--norc", "-c", f"'{home}/.local/bin/corral' --install-completion; true"],
        env={"HOME": str(home), "PATH": str(tools)},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert (home / ".bash_completions" / "corral.sh").is_file()
    for name in ("_corral", "_other"):
        put(home / ".zfunc" / name, "#compdef\n")
    (home / ".zshrc").write_text("fpath+=~/.zfunc; autoload -Uz compinit; compinit\n")
    assert install("--uninstall").returncode == 0
    assert (home / ".bashrc").read_text().strip() == "alias ll='ls -l'"
    assert not (home / ".bash_completions").exists()
    assert [file.name for file in (home / ".zfunc").iterdir()] == ["_other"]
    assert (home / ".zshrc").read_text() == "fpath+=~/.zfunc; autoload -Uz compinit; compinit\n"


@pytest.mark.usefixtures("uv")
def test_without_claude_it_says_so_and_what_is_not_ours_stays(install: Install, tmp_path: Path) -> None:
    theirs = put(tmp_path / "Übung mit Leerzeichen" / ".local" / "bin" / "corral", "somebody's\n")
    done = install()
    assert done.returncode == 1
    assert f"{theirs} exists and is not this installer's" in done.stderr
    assert install("--uninstall").returncode == 0
    assert theirs.read_text() == "somebody's\n"
    theirs.unlink()
    theirs.symlink_to(tmp_path / "on a volume that is not mounted")
    assert install().returncode == 1 and theirs.is_symlink() and not theirs.exists()
    theirs.unlink()
    done = install()
    assert done.returncode == 0, done.stderr
    assert "claude was not found" in done.stdout


@pytest.mark.usefixtures("uv")
def test_an_environment_left_half_made_is_made_anew(install: Install, tmp_path: Path) -> None:
    half = tmp_path / "Übung mit Leerzeichen" / ".local/share/corral/venv/bin"
    put(half / "python", "")
    done = install()
    assert done.returncode == 0, done.stderr


# -- the README's first command -------------------------------------------------------------------------------------


@pytest.mark.slow("It installs everything from the package index into an empty home.")
@pytest.mark.timeout(300)
def test_the_demo_in_a_clean_copy_with_an_empty_home(install: Install, tmp_path: Path) -> None:
    copy = tmp_path / "a fresh clone"
    skipped = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", ".corral", "dist", "build"
    )
    shutil.copytree(ROOT, copy, ignore=skipped, symlinks=True)
    before = {str(file.relative_to(copy)) for file in copy.rglob("*")}
    done = install("--demo", script=copy / "install.sh", timeout_s=280, **PIP)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 of 10 landed; main is green." in done.stdout
    assert "the daemon is stopped and the folder removed." in done.stdout
    assert "refs/corral/salvage" not in done.stdout and "worktree recover" not in done.stdout, "they are gone"
    assert done.stdout.splitlines()[-1].startswith("Next:         ./install.sh, then cd YOUR-REPOSITORY && corral init")
    assert not [pid for pid in psutil.pids() if _runs_from(pid, copy)]
    assert not list(tmp_path.rglob("trust.json")), "the README: nothing is left behind but the environment"
    new = {str(file.relative_to(copy)) for file in copy.rglob("*")} - before
    assert {name for name in new if not name.startswith(".venv")} == set(), "nor anything in the clone"


def _runs_from(pid: int, folder: Path) -> bool:
    try:
        return any(str(folder) in word for word in psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
