"""``corral demo``: run a batch of tasks on a small project in a temporary folder and report what landed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import yaml

from corral.client.connection import Client, segment
from corral.config.initial import default_config
from corral.config.paths import Project, find_project
from corral.core.errors import CorralError, RunnerUnavailable
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.program.daemon import stop_and_wait
from corral.faces.cli.project import trust as project_trust
from corral.faces.cli.terminal.output import echo, paint, state, verification
from corral.faces.cli.terminal.progress import progress
from corral.git.process.command import environ

Task = dict[str, Any]
FILES: dict[str, str]
TASKS: list[Task]
FILES, TASKS = yaml.safe_load(Path(__file__).with_name("demo.yaml").read_text("utf-8")).values()
IDENTITY = {
    "GIT_AUTHOR_NAME": "Corral Demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "Corral Demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}
LIMIT_S = {"command": 90.0, "claude": 1200.0}
EXPECTED_FAILURES = {"broken"}
PAIRS = ({"bread-300", "bread-320"}, {"rename", "receipt"})
"""Exactly one task of each pair can land."""
_FINAL = ("landed", "nothing to land", "conflict", "red", "failed", "dead")


def demo(
    claude: Annotated[bool, Option("--claude", help="Use real Claude Code workers, with your login.")] = False,
    keep: Annotated[bool, Option("--keep", help="Keep the folder.")] = False,
) -> None:
    """Run a batch of tasks on a small project and show what lands, what comes back and why."""
    if claude and shutil.which("claude") is None:
        raise RunnerUnavailable(
            "`claude` is not on the PATH.", remedy="Install Claude Code, or run the demo without it."
        )
    folder = Path(tempfile.mkdtemp(prefix="corral-demo-")).resolve()
    if not keep:  # the project's approvals are removed with it
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
    began = time.monotonic()
    try:
        project = _make_project(folder / "bakery")
        verdict = _run(project, "claude" if claude else "command", keep=keep)
    finally:
        stop_and_wait(Project(folder / "bakery", folder / "bakery/.git", folder / "bakery/.corral", False))
        if not keep:
            project_trust.store().revoke(folder / "bakery/.git")
            shutil.rmtree(folder)
    echo(
        f"\n{time.monotonic() - began:.1f} s; the daemon is stopped"
        + (f"; the project is in {project.root}" if keep else " and the folder removed.")
    )
    if keep:
        echo(
            f"Inspect it:   cd {shlex.quote(str(project.root))} && corral status   (remove {folder} when you are done)"
        )
    installed = "" if shutil.which("corral") else "./install.sh, then "
    echo(f"Next:         {installed}cd YOUR-REPOSITORY && corral init --verify 'YOUR TEST COMMAND'")
    if not verdict:
        raise Exit(1)


def _git(cwd: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env={**environ(), **IDENTITY},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if process.returncode != 0:
        raise CorralError(f"git {arguments[0]} failed.", cause=process.stderr.strip())
    return process.stdout.strip()


def _make_project(root: Path) -> Project:
    """Create a coordinated repository with a test suite and committed settings."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    verify = f"{shlex.quote(sys.executable)} -m unittest discover -v"
    config = default_config("main", [verify]) + "\ntasks:\n  # The demo shows a failure once.\n  max_retries: 0\n"
    (root / ".corral").mkdir()
    (root / ".corral" / "config.yaml").write_text(config, encoding="utf-8")
    (root / ".corral" / ".gitignore").write_text("*\n!.gitignore\n!config.yaml\n", encoding="utf-8")
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "A small bakery")
    project = find_project(root)
    project_trust.store().approve(project.common_dir, project_trust.claims(project))
    return project


def _run(project: Project, runner: str, *, keep: bool) -> bool:
    os.environ.setdefault("DEMO_PYTHON", sys.executable)
    client = Client(project)
    echo(
        paint(
            f"A project with {len(FILES)} files and a test suite; {len(TASKS)} tasks, worked on in parallel worktrees.",
            "bold",
        )
    )
    answer = client.request("POST", "/tasks/batch", {"tasks": [_submission(task, runner) for task in TASKS]})
    ids = dict(zip(answer["task_ids"], TASKS, strict=True))
    _follow(client, ids, LIMIT_S[runner])
    details = {
        task["name"]: client.request("GET", f"/tasks/{segment(task_id)}/detail") for task_id, task in ids.items()
    }
    _account(client, details, keep=keep)
    return _verify_fresh_clone(project, client, details, strict=runner == "command")


def _submission(task: Task, runner: str) -> dict[str, Any]:
    command = f"DEMO_PYTHON={shlex.quote(sys.executable)}\n{task['command']}"
    work = {"prompt": task["prompt"]} if runner == "claude" and "prompt" in task else {"command": command}
    return {"title": task["title"], "name": task["name"], "wait_for": task.get("wait_for", []), **work}


def _follow(client: Client, ids: dict[str, Task], limit_s: float) -> None:
    """Print each change until everything is settled."""
    seen: dict[str, str] = {}
    began = time.monotonic()
    with progress("working on the tasks") as update:
        while True:
            answer = client.request("GET", "/wait", query={"task": list(ids), "timeout_s": 0.5})
            for row in answer["tasks"]:
                now = row["outcome"]
                if now != seen.get(row["task_id"]) and now not in ("waiting", "pending", "queued"):
                    seen[row["task_id"]] = now
                    title = ids[row["task_id"]]["title"]
                    update.show(f"  {time.monotonic() - began:5.1f} s  {state(now):<20} {title}")
            if answer["settled"] or answer["waits_for_person"]:
                return
            update("working on the tasks", sum(now in _FINAL for now in seen.values()), len(ids))
            if time.monotonic() - began > limit_s:
                raise CorralError(
                    "The demo did not finish in time.", remedy="Run it again with --keep and read `corral status`."
                )


def _account(client: Client, details: dict[str, Any], *, keep: bool) -> None:
    shows = {task["name"]: task["shows"] for task in TASKS}
    echo(paint("\nResults", "bold"))
    for name, task in details.items():
        merge = task["merge"]
        outcome = task["outcome"]
        echo(f"  {state(outcome):<{9 + len(state(outcome)) - len(outcome)}}  {task['title']}  ({shows[name]})")
        reason = (merge and merge["reason"]) or task["error_message"]
        if outcome != "landed" and reason:
            lines = str(reason).strip().splitlines()
            for line in [lines[0], *lines[1:][-3:]]:
                echo(paint(f"             {line[:150]}", "dim"))
    saved = client.request("GET", "/salvage")
    if saved and keep:
        echo(f"  Salvaged: {', '.join(state['ref'] for state in saved[:3])} (`corral worktree recover` restores it)")
    elif saved:
        echo(
            f"  Salvaged: the work of {len(saved)} failed task(s); removed with the folder (`corral demo --keep` "
            "keeps both)"
        )


def _verify_fresh_clone(project: Project, client: Client, details: dict[str, Any], *, strict: bool) -> bool:
    """Run the tests on a fresh clone of the target, and compare its tree with the last receipt."""
    landed = [task["merge"] for task in details.values() if task["merge"] and task["merge"]["state"] == "landed"]
    receipts = {merge["receipt"]["tree"]: merge["receipt"] for merge in landed}
    tree = _git(project.root, "rev-parse", "main^{tree}")
    echo(paint("\nProof", "bold"))
    receipt = receipts.get(tree)
    if receipt:
        echo(f"  main is tree {tree[:12]}; its verification {verification(receipt)}")
    with tempfile.TemporaryDirectory(prefix="corral-demo-proof-") as fresh:
        _git(project.root, "clone", "-q", str(project.root), f"{fresh}/clone")
        run = subprocess.run(
            [sys.executable, "-m", "unittest", "discover"], cwd=f"{fresh}/clone", capture_output=True, text=True
        )
    green = run.returncode == 0
    last = run.stderr.strip().splitlines()
    echo(f"  a fresh clone of main: {state('passed' if green else 'failed')} ({last[-3] if len(last) > 2 else ''})")
    for line in _git(project.root, "log", "--oneline", "--first-parent", "-12", "main").splitlines():
        echo(paint(f"    {line}", "dim"))
    echo(f"  {len(landed)} of {len(details)} landed; main is {paint('green', 'green') if green else state('failed')}.")
    return green and receipt is not None and (not strict or _as_expected(details))


def _as_expected(details: dict[str, Any]) -> bool:
    landed = {name for name, task in details.items() if task["merge"] and task["merge"]["state"] == "landed"}
    free = set(details) - EXPECTED_FAILURES - PAIRS[0] - PAIRS[1]
    return free <= landed and not (landed & EXPECTED_FAILURES) and all(len(pair & landed) == 1 for pair in PAIRS)
