"""Shell completion, in real shells on a real terminal: a key press completes a command."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.conftest import git
from tests.support.coordinated import Coordinated
from tests.support.files import executable
from tests.support.programs import requires

SOURCE = Path(__file__).parents[2] / "daemon"
SHELLS = {"bash": ["bash", "-i"], "zsh": ["zsh", "-i"], "fish": ["fish", "-i"]}
DEADLINE_S = 20.0


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A folder for PATH with the command ``corral``."""
    folder = tmp_path / "bin"
    executable(
        folder / "corral",
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(SOURCE)!r})\n"
        "from corral.faces.cli import main\nsys.exit(main())\n",
    )
    return folder


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=requires(shell)) for shell in SHELLS])
def test_a_key_press_completes_a_command_in_an_empty_home_and_outside_of_a_project(
    sealed: Path, command: Path, tmp_path: Path, shell: str
) -> None:
    env = {**os.environ, "PATH": f"{command}:{os.environ['PATH']}", "TERM": "xterm", "PS1": "ready> "}
    # The shell that runs it is the one that it is installed for.
    install = [shell, "-c", "corral --install-completion; true"]
    assert f"{shell} completion installed" in subprocess.run(install, env=env, capture_output=True, text=True).stdout
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with _Terminal(SHELLS[shell], elsewhere, env) as terminal:
        terminal.type("echo be''gin\n")
        terminal.wait_for("begin")
        # The first key press in zsh loads the function, the second one completes.
        terminal.type("corral task repri" + ("\t\t" if shell == "zsh" else "\t"))
        terminal.wait_for("corral task reprioritize", typed="corral task repri")


@requires("bash")
def test_the_completion_function_of_bash_is_told_every_command(sealed: Path, command: Path, repo: Path) -> None:
    env = {**os.environ, "PATH": f"{command}:{os.environ['PATH']}"}
    script = 'eval "$(corral --show-completion)"; COMP_WORDS=(corral ""); COMP_CWORD=1; _corral_completion corral; '
    done = subprocess.run(
        ["bash", "--norc", "-c", script + 'printf "%s\\n" "${COMPREPLY[@]}"'],
        cwd=repo,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert {"init", "task", "merge", "worktree", "status", "doctor"} <= {*done.stdout.split()}
    assert done.stderr == ""
    assert git(repo, "status", "--porcelain", "--ignored") == ""


SETUP = (
    'eval "$(corral --show-completion)"; reply() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
    '_corral_completion corral; printf "%s\\n" "${COMPREPLY[@]}" END; }; '
)


@requires("bash")
@pytest.mark.req("NFR-USE-002")
def test_ids_branches_agents_and_names_are_completed_and_a_hostile_name_is_not_executed(
    house: Coordinated, command: Path
) -> None:
    hostile = "x;touch$IFS'pwned'"
    git(house.root, "branch", "--", hostile)
    git(house.root, "branch", "feat/größe")
    title = r"\$(touch pwned) [/bold] `touch pwned` \"; touch pwned"
    task = house.carry_out(title, "true")
    house.run("lock", "acquire", "src/a.py")
    house.run("alias", "set", "stale", "task list --status waiting")
    env = {**os.environ, "PATH": f"{command}:{os.environ['PATH']}"}
    asked = {
        f'reply corral task detail {task[:3]}': [task[:8]],
        'reply corral task detail ""': ["1", task[:8]],
        'reply corral merge submit ""': ["feat/größe", "main"],
        'reply corral task submit --agent r': ["researcher", "resolver", "reviewer"],
        'reply corral lock release ""': ["src/a.py"],
        'reply corral config explain landing.verd': ["landing.verdict_max_age_s"],
        'reply corral sta': ["stale", "state", "status", "statusline"],
        f'cd /; reply corral -C "{house.root}" message send al': ["all"],
        'reply corral task detail ""; true': [],
    }  # fmt: skip
    script = SETUP + "; ".join(asked)
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=house.root, env=env, check=True, capture_output=True, text=True
    )
    replies = [sorted(part.split()) for part in done.stdout.split("END")]
    assert replies[: len(asked)] == [sorted(words) for words in asked.values()], done.stderr
    assert done.stderr == ""
    for shell in ("zsh", "fish"):
        completion = {"_CORRAL_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "corral task detail "}
        shown = subprocess.run(
            [command / "corral"], cwd=house.root, env={**env, **completion, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert task[:8] in shown and "touch pwned" in shown
        assert not {*"$`[]\\;"} & {*shown.replace("_arguments '*: :((", "")}, shown
    assert not (house.root / "pwned").exists()
    house.run("daemon", "stop")
    script = SETUP + 'reply corral task detail ""'
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=house.root, env=env, check=True, capture_output=True, text=True
    )
    assert (done.stdout.split(), done.stderr) == (["END"], "")
    assert house.daemon_pid() is None, "a key press starts no daemon"


class _Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._seen = ""
        self._main, line = pty.openpty()
        fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=line,
            stdout=line,
            stderr=line,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(line)

    def __enter__(self) -> _Terminal:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._main)

    def type(self, text: str) -> None:
        """Press keys."""
        self._seen = ""
        os.write(self._main, text.encode())

    def wait_for(self, text: str, *, typed: str = "") -> None:
        """Read until the screen holds ``text``; a shell shows only what it added to what was typed."""
        until = time.monotonic() + DEADLINE_S
        added = text.removeprefix(typed)
        while text not in self._seen and not (typed and added in self._seen):
            assert time.monotonic() < until, self._seen
            if select.select([self._main], [], [], 0.2)[0]:
                self._seen += os.read(self._main, 65536).decode(errors="replace")
