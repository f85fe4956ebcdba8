"""Bad input and bad worlds: each is handled, or refused with a remedy; nothing half-done stays, nothing of the user's is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, git, worktrees_of
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import program, requires

SOURCE = str(Path(__file__).resolve().parents[2] / "daemon")


def error_of(done: Any, code: int) -> dict[str, Any]:
    """The error of a command that must have failed with this exit code, and left stdout alone."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    error = json.loads(done.stderr)["error"]
    assert error["message"] and error["cause"] and error["remedy"]
    return dict(error)


def lands(house: Coordinated, command: str = "echo hello > hello.txt") -> dict[str, Any]:
    """The detail of a task that has landed."""
    return dict(house.json("task", "detail", house.carry_out("a task", command)))


# -- where there is no repository to speak of


def test_outside_of_any_repository(tmp_path: Path) -> None:
    house = Coordinated(tmp_path)
    for command in (("init", "--yes"), ("status",), ("task", "list"), ("uninstall", "--yes"), ("daemon", "stop")):
        assert "git init" in error_of(house.run(*command, "--json", check=False), 2)["remedy"]
    assert list(tmp_path.iterdir()) == []


def test_a_repository_that_is_not_coordinated(repo: Path) -> None:
    house = Coordinated(repo)
    for command in (("status",), ("task", "submit", "--title", "x", "--command", "true"), ("daemon", "start")):
        assert "corral init" in error_of(house.run(*command, "--json", check=False), 2)["remedy"]
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    house = Coordinated(tmp_path)
    assert "first commit" in error_of(house.run("init", "--yes", "--json", check=False), 1)["remedy"]
    assert [item.name for item in tmp_path.iterdir()] == [".git"]


def test_a_detached_head_needs_a_target_named(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    house = Coordinated(repo)
    assert "--target" in error_of(house.run("init", "--yes", "--json", check=False), 2)["remedy"]
    assert not (repo / ".corral").exists()
    house.run("init", "--yes", "--target", "main")
    try:
        lands(house)
        assert git(repo, "show", "main:hello.txt") == "hello"
        assert not (repo / "hello.txt").exists(), "the detached checkout is not the target's"
        assert "git switch" in error_of(house.run("merge", "submit", "--json", check=False), 2)["remedy"]
    finally:
        house.stop()


def test_a_bare_repository(repo: Path, tmp_path: Path) -> None:
    """Its target has settings already, which count although the new ones beside it are empty."""
    bare = tmp_path / "hub.git"
    commit(repo, {".corral/config.yaml": "landing: {verify: ['test -f hell[o].txt']}\n"})
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    house = Coordinated(bare)
    assert "work lands unverified" not in house.run("init", "--yes").stdout
    try:
        assert (bare / ".corral" / "config.yaml").is_file() and house.json("status")["verified"]
        assert lands(house)["merge"]["receipt"]["status"] == "passed"
        assert git(bare, "show", "main:hello.txt") == "hello"
        git(repo, "push", "-q", str(bare), "main:refs/heads/side")
        made = Path(house.json("worktree", "create", "mine")["path"])
        assert (made / "hello.txt").is_file()
        assert house.json("status", cwd=made)["target"] == "main"
        house.run("uninstall", "--yes")
        assert not (bare / ".corral").exists()
    finally:
        house.stop()


# -- where the repository lies


@pytest.mark.parametrize("name", ["with späces and 日本", 'it\'s 100% "quoted" $HOME `x`', "-C", "a;b&c|d"])
def test_a_path_with_unusual_characters(
    coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path], name: str
) -> None:
    house = coordinate(make_repo(name), verify=("test -f f?ü.txt",))
    lands(house, "echo x > 'f ü.txt'")
    assert (house.root / "f ü.txt").is_file()
    made = Path(house.json("worktree", "create", "mine")["path"])
    (made / "half.txt").write_text("half")
    house.run("worktree", "remove", "mine")
    assert (Path(house.json("worktree", "recover", "mine")["path"]) / "half.txt").is_file()


def test_a_path_that_looks_like_a_query_leaves_nothing_beside_it(
    coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    house = coordinate(make_repo("what?mode=memory#x%41"))
    lands(house)
    house.run("daemon", "restart")
    assert [row["status"] for row in house.json("task", "list")] == ["completed"]
    assert {item.name for item in tmp_path.iterdir()} == {house.root.name, worktrees_of(house.root).name}


def test_a_repository_inside_a_repository_is_one_of_its_own(
    coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path]
) -> None:
    outer = coordinate(make_repo("outer"))
    inner = coordinate(make_repo("outer/vendor/inner"))
    lands(inner, "echo inner > inner.txt")
    lands(outer, "echo outer > outer.txt")
    assert (inner.root / "inner.txt").is_file() and not (inner.root / "outer.txt").exists()
    assert (outer.root / "outer.txt").is_file() and not (outer.root / "inner.txt").exists()
    assert inner.daemon_pid() != outer.daemon_pid()


def test_a_project_with_a_submodule(coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path]) -> None:
    part, around = make_repo("part"), make_repo("around")
    git(around, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    git(around, "commit", "-q", "-m", "part")
    house = coordinate(around)
    before = git(around, "ls-tree", "main", "part")
    lands(house)
    assert git(around, "ls-tree", "main", "part") == before
    assert (around / "part" / "README.md").is_file()


@pytest.mark.parametrize("kind", ["submodule", "separate git directory"])
def test_a_git_directory_that_lies_elsewhere(make_repo: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    part = make_repo("part")
    if kind == "submodule":
        around = make_repo("around")
        git(around, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "inside")
        root = around / "inside"
    else:
        root = tmp_path / "clone"
        git(tmp_path, "clone", "-q", "--separate-git-dir", str(tmp_path / "elsewhere.git"), str(part), str(root))
    house = Coordinated(root)
    if kind != "submodule":
        assert "core.worktree" in error_of(house.run("init", "--yes", "--json", check=False), 1)["remedy"]
        git(root, "config", "core.worktree", str(root))
    house.run("init", "--yes", "--no-check", "--verify", "true")
    try:
        lands(house)
        assert (root / "hello.txt").read_text() == "hello\n"
        assert git(root, "status", "--porcelain") == ""
        house.run("uninstall", "--yes")
    finally:
        house.run("daemon", "stop", check=False)


# -- hostile input


def test_hostile_branch_names_are_refused_or_just_names(house: Coordinated) -> None:
    for name in ("--output=x", "a\nb", "$(touch pwned)", "x" * 1000, "main..other", "main@{1}", ":/first", ""):
        done = house.run("merge", "submit", "--json", "--", name, check=False)
        assert error_of(done, done.returncode)["code"] and done.returncode in (2, 3), name
        done = house.run("init", "--yes", f"--target={name or '-'}", "--json", check=False)
        assert done.returncode in (2, 3), name
    head = git(house.root, "commit-tree", "main^{tree}", "-p", "main", "-m", "x")
    for name in ("$(touch${IFS}pwned)", "a;b", "ünï/çode", "wip'\""):
        git(house.root, "update-ref", f"refs/heads/{name}", commit_with(house.root, head, name))
        house.run("merge", "submit", name)
        assert house.json("wait", "--all", "--timeout", "60")["done"] is True
    merges = house.json("merge", "list")
    assert merges[0]["branch"] == "$(touch${IFS}pwned)"
    assert [merge["state"] for merge in merges] == ["landed"] * 4
    assert not list(house.root.rglob("pwned"))


def commit_with(root: Path, parent: str, text: str) -> str:
    """A commit with one more file, made without a checkout."""
    done = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=root, input=text.encode(), capture_output=True, check=True
    )
    blob = done.stdout.decode().strip()
    listing = git(root, "ls-tree", parent) + f"\n100644 blob {blob}\tfile-{abs(hash(text))}\n"
    done = subprocess.run(["git", "mktree"], cwd=root, input=listing.encode(), capture_output=True, check=True)
    return git(root, "commit-tree", done.stdout.decode().strip(), "-p", parent, "-m", "x")


# -- the project's own files


@requires("setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_home_that_may_not_be_written_is_said_and_left(repo: Path, request: pytest.FixtureRequest) -> None:
    # A short path, so that the socket lies in run/ and not in a runtime folder that is another user's.
    place = Path(tempfile.mkdtemp(prefix="corral-home-", dir="/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(place))
    place.chmod(0o755)
    repo = Path(shutil.move(repo, place / "repo"))
    Coordinated(repo).run("init", "--yes")
    for path in (repo, *repo.rglob("*")):
        os.lchown(path, 65534, 65534)
    (repo / ".corral" / "run").chmod(0o000)
    before = sorted(str(path) for path in (repo / ".corral").rglob("*"))
    env = {**os.environ, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-m", "corral", "task", "list", "--json"],
        cwd=repo, env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if "corral" not in done.stderr:
        pytest.skip("another user may not run this Python")
    error = error_of(done, 5)
    assert ".corral" in error["cause"] and "permissions" in error["remedy"]
    assert sorted(str(path) for path in (repo / ".corral").rglob("*")) == before


def test_an_invalid_configuration_names_every_field_and_the_file(house: Coordinated) -> None:
    file = house.root / ".corral" / "config.yaml"
    good = file.read_text()
    file.write_text("locks: {ttl_s: -1}\nsupervisor: {max_agents: many}\n")
    done = house.run("task", "list", "--json", check=False)
    error = error_of(done, 2)
    assert error["name"] == "config_invalid"
    assert {problem["field"] for problem in error["details"]["errors"]} == {"locks.ttl_s", "supervisor.max_agents"}
    shown = house.run("task", "list", check=False).stderr
    assert "locks.ttl_s" in shown and "config.yaml" in shown
    file.write_text(good)
    assert house.json("task", "list") == []


def test_a_prompt_without_claude_is_refused_at_once(house: Coordinated, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(program(name))
    error = error_of(
        house.run("task", "submit", "--title", "x", "--prompt", "do it", "--json", check=False, PATH=str(tools)), 1
    )
    assert error["name"] == "runner_unavailable"
    assert "--command" in error["remedy"]
    assert house.json("task", "list") == []


@pytest.mark.req("FR-QUEUE-002")
def test_a_thousand_tasks_are_listed_fast_enough(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([{"title": f"task {n}", "command": "true", "priority": n % 11} for n in range(1000)]))
    assert len(house.json("task", "batch-submit", "--file", str(file))["task_ids"]) == 1000
    client = house.client()
    rows = client.request("GET", "/tasks")

    def seconds() -> float:
        began = time.perf_counter()
        client.request("GET", "/tasks")
        return time.perf_counter() - began

    eventually(lambda: seconds() < 0.25)  # 50 ms on an idle machine; see bench/
    client.close()
    assert [row["priority"] for row in rows] == sorted((n % 11 for n in range(1000)), reverse=True)
    full = error_of(house.run("task", "submit", "--title", "x", "--command", "true", "--json", check=False), 4)
    assert "queue.max_size" in full["cause"]


@pytest.mark.parametrize("text", ["[1]", '"text"', "7", "{"])
def test_a_damaged_daemon_json_breaks_neither_status_nor_stop(house: Coordinated, text: str) -> None:
    house.run("daemon", "start")
    (house.root / ".corral/run/daemon.json").write_text(text)
    assert house.json("daemon", "status")["running"] is True
    assert house.json("daemon", "stop")["stopped"] is True
