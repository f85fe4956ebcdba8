"""Provisioning that is killed, repeated or refused leaves whole folders or none, and the setup ends what it began."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from corral.core.errors import CorralError, SetupFailed
from corral.work.worktrees.folders import share_blocks
from corral.work.worktrees.provision import run_setup
from tests.conftest import git
from tests.integration.provisioning import add_worktree, make_usable, run_in, usable
from tests.integration.running import ON_LINUX
from tests.support.programs import requires

MakeRepo = Callable[..., Path]
WITHIN_S = 20


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def main(make_repo: MakeRepo) -> Path:
    root = make_repo(files={"pyproject.toml": "", ".gitignore": ".venv\n"})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    (packages,) = (root / ".venv").glob("lib/*/site-packages")
    for number in range(1500):
        (packages / f"m{number}.py").write_text("x = 1\n")
    return root


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} - {".gitignore"}


PROVISION = """
import sys
from pathlib import Path
from tests.integration.provisioning import make_usable
make_usable(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.faults
def test_a_clone_that_was_killed_is_made_whole_by_the_next_run(main: Path) -> None:
    worktree = add_worktree(main)
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", PROVISION, str(main), str(worktree)],
        env={**os.environ, "PYTHONPATH": f"{root / 'daemon'}:{root}"},
    )
    half = worktree / ".corral-provisioning/built/lib"
    wait_until(lambda: len(list(half.glob("*/site-packages/*"))) > 20 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # What stands at its place is whole or not there, and the half is not in git's sight.
    assert half.exists()
    assert not (worktree / ".venv").exists()
    assert git(worktree, "status", "--porcelain") == ""

    provisioned = make_usable(main, worktree)
    assert tree(worktree / ".venv") == tree(main / ".venv")
    assert not (worktree / ".corral-provisioning").exists()
    run_in(worktree, provisioned, "python", "-c", "import m1499")


def test_a_second_run_changes_nothing_and_says_the_same(main: Path) -> None:
    worktree, first = usable(main)
    mine = next((worktree / ".venv").glob("lib/*/site-packages")) / "mine.py"
    mine.write_text("installed by the task\n")
    before = (worktree / ".venv").stat().st_ino
    second = make_usable(main, worktree)
    assert (second.env, second.path_prefixes, second.exclude) == (first.env, first.path_prefixes, first.exclude)
    assert second.disk_bytes == 0
    assert mine.exists()
    assert (worktree / ".venv").stat().st_ino == before


def packages(checkout: Path) -> Path:
    return next((checkout / ".venv").glob("lib/*/site-packages"))


def test_what_is_installed_in_the_main_checkout_later_reaches_a_worktree_that_has_not_changed_its_own(
    main: Path,
) -> None:
    """A verification worktree lives long: judged with old dependencies, good work would come back red."""
    long_lived, changed = add_worktree(main, "verify-1"), add_worktree(main, "task")
    for worktree in (long_lived, changed):
        run_in(worktree, make_usable(main, worktree), "python", "-c", "import m1")
    (packages(long_lived) / "__pycache__").mkdir(exist_ok=True)
    (packages(changed) / "mine-1.dist-info").mkdir()
    (packages(main) / "new.py").write_text("x = 1\n")
    (packages(main) / "m7.py").unlink()

    refreshed = make_usable(main, long_lived)
    run_in(long_lived, refreshed, "python", "-c", "import new")
    assert not (packages(long_lived) / "m7.py").exists()
    kept = make_usable(main, changed)
    assert (packages(changed) / "mine-1.dist-info").exists()
    assert not (packages(changed) / "new.py").exists()
    assert [note for note in kept.notes if "has changed its own" in note]
    assert refreshed.exclude == kept.exclude == []
    for worktree in (long_lived, changed):
        assert make_usable(main, worktree).disk_bytes == 0
        assert git(worktree, "status", "--porcelain") == ""


def test_a_package_that_is_added_or_replaced_reaches_linked_modules(make_repo: MakeRepo) -> None:
    main = make_repo(files={"package.json": "{}", ".gitignore": "node_modules\n"})
    (main / "node_modules/@s/a").mkdir(parents=True)
    worktree, _ = usable(main)
    (worktree / "node_modules/.vite").mkdir()
    (main / "node_modules/@s/b").mkdir()
    make_usable(main, worktree)
    assert (worktree / "node_modules/@s/b").resolve() == main / "node_modules/@s/b"
    assert make_usable(main, worktree).notes == []


def test_gigabytes_that_can_be_built_again_come_along_only_where_they_cost_nothing(make_repo: MakeRepo) -> None:
    main = make_repo(files={"Cargo.toml": "", ".gitignore": "target\n"})
    (main / "target/debug").mkdir(parents=True)
    (main / "target/debug/lib").write_text("x" * 5000)
    (main / "probe").write_text("x")
    shared = share_blocks(main / "probe", main / "probe2")
    worktree, provisioned = usable(main)
    assert provisioned.disk_bytes == 0
    assert (worktree / "target/debug/lib").exists() is shared
    assert any(("copy-on-write" in note) is not shared for note in provisioned.notes)


def test_the_disk_use_is_told(main: Path) -> None:
    provisioned = make_usable(main, add_worktree(main))
    size = sum(path.lstat().st_size for path in (main / ".venv").rglob("*") if path.is_file() and not path.is_symlink())
    assert provisioned.disk_bytes in (0, size)  # Nothing where the file system shares blocks.
    assert [note for note in provisioned.notes if note.startswith(".venv: c")]


def test_a_file_system_that_refuses_leaves_nothing_half_made(main: Path) -> None:
    worktree = add_worktree(main)
    # The longest path there can be: it exists in the main checkout, and cannot in the worktree, which lies deeper.
    length = os.pathconf(worktree, "PC_PATH_MAX") - 10
    deep = main / ".venv"
    while length - len(str(deep)) > 250:
        deep = deep / ("d" * 100)
    deep = deep / ("d" * (length - len(str(deep)) - 1))
    deep.mkdir(parents=True)
    with pytest.raises(CorralError, match="could not be made usable") as raised:
        make_usable(main, worktree)
    assert raised.value.remedy
    assert sorted(child.name for child in worktree.iterdir()) == [".git", ".gitignore", "pyproject.toml"]


# --- setup -----------------------------------------------------------------------------------------------------------


def setup(
    worktree: Path,
    *commands: str,
    timeout_s: float = WITHIN_S,
    is_unwanted: Callable[[], bool] = lambda: False,
    **env: str,
) -> tuple[SetupFailed | None, str]:
    """Run setup commands; returns how they failed, and the log."""
    log = worktree / "logs" / "setup.log"
    try:
        run_setup(worktree, commands, {"PATH": os.environ["PATH"], **env}, log, timeout_s, is_unwanted)
    except SetupFailed as error:
        assert str(log) in error.remedy
        return error, log.read_text()
    return None, log.read_text()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_setup_runs_every_command_in_the_worktree_with_its_environment(tmp_path: Path) -> None:
    failure, log = setup(tmp_path, "echo $A > made", "cat made && pwd", A="b c")
    assert failure is None
    assert log == f"$ echo $A > made\n$ cat made && pwd\nb c\n{tmp_path}\n"


def test_setup_stops_at_the_first_line_of_a_command_that_fails(tmp_path: Path) -> None:
    failure, _log = setup(tmp_path, "echo out; exit 3 | cat\ncd no-such-folder\ntouch never\n")
    assert failure is not None and not (tmp_path / "never").exists()


def test_setup_stops_at_the_first_command_that_fails(tmp_path: Path) -> None:
    failure, log = setup(tmp_path, "echo out; echo err >&2; exit 3", "touch never")
    assert failure is not None and failure.message.endswith(": echo out; echo err >&2; exit 3")
    assert failure.details == {"exit_code": 3}
    assert "out\nerr\n" in log
    assert not (tmp_path / "never").exists()


def test_setup_that_takes_too_long_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    began = time.monotonic()
    failure, log = setup(tmp_path, "sh -c 'echo $$ > pid; sleep 300' & wait", timeout_s=0.5)
    assert time.monotonic() - began < WITHIN_S
    assert failure is not None and failure.details == {"exit_code": None}
    assert "not done after 0.5 s" in log
    wait_until(lambda: is_gone(int((tmp_path / "pid").read_text())))


def test_setup_that_ignores_the_polite_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.work.worktrees.provision._STOP_GRACE_S", 0.2)
    failure, _ = setup(tmp_path, "trap '' TERM; while :; do sleep 0.1; done", timeout_s=0.5)
    assert failure is not None and failure.details == {"exit_code": None}


def test_setup_leaves_no_process_behind(tmp_path: Path) -> None:
    failure, _ = setup(tmp_path, "sleep 300 & echo $! > pid")
    assert failure is None
    wait_until(lambda: is_gone(int((tmp_path / "pid").read_text())))


@requires("setsid")
@pytest.mark.parametrize(
    ("leaving", "purpose"),
    [
        ("setsid", {}),
        pytest.param("setsid env -i", {}, marks=ON_LINUX),
        pytest.param("setsid env -i", {"CORRAL_TASK_ID": "a-task"}, marks=ON_LINUX),
        pytest.param("setsid env -i", {"CORRAL_VERIFICATION": "a-path"}, marks=ON_LINUX),
    ],
)
def test_setup_that_nobody_wants_any_more_is_ended_with_all_its_processes(
    tmp_path: Path, leaving: str, purpose: dict[str, str]
) -> None:
    pid = tmp_path / "pid"
    # One that left the group is found by the worktree's mark, or by its tag.
    command = f"{leaving} sh -c 'echo $$ > half && mv half pid; exec sleep 300' & wait"
    began = time.monotonic()
    failure, log = setup(
        tmp_path,
        command,
        timeout_s=300,
        is_unwanted=pid.exists,
        CORRAL_WORKTREE=str(tmp_path),
        CORRAL_PROJECT_ID="a-project",
        **purpose,
    )
    assert time.monotonic() - began < WITHIN_S
    assert failure is not None and failure.details == {"exit_code": None} and "no longer wanted" in log
    wait_until(lambda: is_gone(int(pid.read_text())))


def test_the_recipes_own_setup_runs_only_where_it_is_allowed_and_needed(make_repo: MakeRepo) -> None:
    main = make_repo(files={"package.json": "{}", "package-lock.json": "{}"})
    worktree, unasked = usable(main)
    assert unasked.setup == []
    assert any("npm ci" in note and "worktrees.setup" in note for note in unasked.notes)
    allowed = make_usable(main, worktree, setup=["echo first", "recipe"])
    assert allowed.setup[0] == "echo first"
    assert "npm ci" in allowed.setup[1]
    (main / "node_modules/left").mkdir(parents=True)
    assert make_usable(main, worktree, setup=["echo first", "recipe"]).setup == ["echo first"]
