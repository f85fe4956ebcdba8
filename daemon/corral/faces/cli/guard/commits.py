"""``corral guard``: a git hook that tells a commit whose file it is about to take along; and a person's word for blind edits."""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from corral.client import last_look
from corral.client.connection import Client
from corral.config.paths import Project, find_checkout, find_guarded, find_project
from corral.core.errors import Conflict, CorralError, InvalidInput, NotAProject
from corral.core.instants import UTC, iso, span_s
from corral.core.visible import one_line
from corral.faces.cli.asking import declared
from corral.faces.cli.guard import hook
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.project.own_files import give_back, replace_file
from corral.faces.cli.terminal.options import here, option, session_id
from corral.faces.cli.terminal.output import echo, for_programs, paint, printed, report
from corral.faces.cli.terminal.person import confirm, refuse_agents
from corral.git.process.command import Git

app = Group("Guard: a git hook that tells a commit whose files it would take along; edits that cannot be checked.")
MOST_NAMED = 10
ANSWER_WITHIN_S = 5.0
MOST_ALLOWED_S = 2 * 86_400.0
RECORD = "corral-guard.json"
"""In the git common directory: the hooks that the guard was put into."""
Yes = Annotated[bool, Option("--yes", "-y", help="Do not prompt.")]


@app.command(prints="faces.cli.api.GuardInstalled")
def install(yes: Yes = False) -> None:
    """Put the guard into the pre-commit hook; a hook that is there stays and runs after it."""
    refuse_agents("Installing the guard", "corral guard install")
    project, checkout = find_project(here()), _checkout()
    file = hook.hook_file(checkout)
    scope = _scope(project, checkout, file)
    if scope is not None and not hook.is_in(file):
        if not for_programs():
            echo(f"{paint('will change', 'bold')} {file}: {scope}")
        if not yes and not confirm("Change it?", default=False):
            raise Exit(1)
    _remember(project, {*_recorded_hooks(project), str(file)})
    hook.put_in(file)
    report({"hook": str(file), "installed": True}, f"The guard is in {file}.")


def _scope(project: Project, checkout: Git, file: Path) -> str | None:
    """Which other repositories a hook outside the repository's own folder affects; None for one inside."""
    folder, top = file.parent.resolve(), checkout.work_tree
    if folder.is_relative_to(project.common_dir.resolve()):
        return None
    if top is None or not folder.is_relative_to(top.resolve()):
        return "core.hooksPath leads there, so others may share it."
    is_tracked = bool(checkout.check("ls-files", "-z", "--", f":(literal){file}").names)
    tracked = " Git tracks the file, so `git status` will show the change." if is_tracked else ""
    return (
        "core.hooksPath is relative, so this is the hook of this checkout alone; in another worktree, "
        f"`corral guard install` puts the guard into its own.{tracked}"
    )


@app.command(prints="faces.cli.api.GuardRemoved")
def remove() -> None:
    """Take the guard out of every hook that it was put into; the hooks are then as they were."""
    refuse_agents("Removing the guard", "corral guard remove")
    gone = take_out_everywhere(find_project(here(), initialised=False), hook.hook_file(_checkout()))
    sentence = f"The guard is out of {', '.join(gone)}." if gone else "The guard is in no hook."
    report({"removed": gone}, sentence)


@app.command(prints="faces.cli.api.GuardStatus")
def status() -> None:
    """Show whether commits in this checkout are checked, and by which hook."""
    checkout = _checkout()
    file = hook.hook_file(checkout)
    answer = {
        "installed": hook.is_in(file),
        "hook": str(file),
        "hooks_path": hook.configured_folder(checkout),
        "former_hook": str(saved) if os.path.lexists(saved := file.with_name(hook.SAVED)) else None,
    }
    if printed(answer):
        return
    echo(f"The guard is {'in' if answer['installed'] else 'not in'} {file}.")
    if answer["former_hook"]:
        echo(f"It then runs {answer['former_hook']}.")


@app.command(prints="coordination.locks.api.CommitChecked")
def check() -> None:
    """Check the commit that is being made; the hook runs this. Exits with 4 if it would take along another session's files."""
    try:
        answer = _ask_daemon()
    except CorralError as error:  # an error of the check never stops a commit
        answer = {"enforcement": "off", "held": []}
        print(f"corral guard: this commit was not checked: {error.message}", file=sys.stderr)
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)
    if not printed(answer):
        _print_held(answer["held"])
    if answer["held"] and answer["enforcement"] == "enforce":
        raise Exit(Conflict.exit_code)


@app.command(prints="faces.cli.api.EditsAllowed")
def allow(span: Annotated[str, option("--for", "How long: 30m, 1h, 2d at most.", "SPAN")] = "1h") -> None:
    """Let edits pass of which nobody can say whether the file is held: there is no daemon, and its database cannot be read."""
    refuse_agents("Letting edits pass", f"corral guard allow --for {shlex.quote(span)}")
    project = find_guarded(here())
    try:
        seconds = span_s(span)
    except ValueError as error:
        raise InvalidInput(str(error), remedy="Write --for 30m, or --for 1h.") from error
    if seconds > MOST_ALLOWED_S:
        raise InvalidInput("--for is two days at most.", remedy="Write --for 1h; `corral doctor` says what to mend.")
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    last_look.allow(os.fspath(project.home), until.timestamp())
    sentence = (
        f"Until {until:%H:%M} UTC edits in {project.root} pass where they cannot be checked; held files stay refused."
    )
    report({"until": iso(until)}, sentence)


def _ask_daemon() -> dict[str, Any]:
    checkout = _checkout()
    index_file = os.environ.get("GIT_INDEX_FILE")  # `git commit -- FILE` commits an index of its own
    index = Path(checkout.work_tree or here(), index_file) if index_file else None
    staged = checkout.check("diff", "--cached", "--name-only", "--no-renames", "-z", index_file=index).names
    nothing: dict[str, Any] = {"enforcement": "off", "held": []}
    most = declared()["POST /locks/check-commit"]["takes"]["paths"]["most"]
    paths = [path for path in staged[:most] if path.isprintable()]
    if left := len(staged) - len(paths):
        limits = f"their names have unprintable characters, or there are more than {most:,}"
        print(f"corral guard: files of this commit that were not checked: {left:,} ({limits})", file=sys.stderr)
    if not paths:
        return nothing
    body = {"checkout": str(checkout.work_tree), "paths": paths, "session_id": session_id()}
    with closing(Client(find_guarded(here()), autostart=False)) as client:
        answer: dict[str, Any] = client.request("POST", "/locks/check-commit", body, timeout_s=ANSWER_WITHIN_S)
    return answer


def _print_held(held: list[dict[str, Any]]) -> None:
    if not held:
        return
    print("corral: this commit would take along files that other sessions hold in this checkout:", file=sys.stderr)
    for lock in held[:MOST_NAMED]:
        task = f', for "{one_line(str(lock["task"]))[:100]}"' if lock["task"] else ""
        print(f"  {one_line(lock['path'])}: held by {one_line(lock['held_by'])}{task}", file=sys.stderr)
    if len(held) > MOST_NAMED:
        print(f"  and {len(held) - MOST_NAMED} more", file=sys.stderr)
    print("Commit your own files only: git commit -- FILE…   To commit all the same: --no-verify", file=sys.stderr)


def take_out_everywhere(project: Project, *more: Path) -> list[str]:
    """Take the guard out of the hooks that it was put into, and of these; returns those that had it.

    Raises:
        Conflict: One was changed since, so that it cannot be restored.
    """
    configured = hook.hook_file(Git(project.common_dir, None if project.bare else project.root))
    here = [configured] if _repository_of(configured) == project.common_dir else []
    # The record of a copied repository names the hooks of the original.
    recorded = [
        file
        for file in map(Path, _recorded_hooks(project))
        if file == configured or _repository_of(file) in (None, project.common_dir)
    ]
    files = sorted({str(file) for file in (*recorded, *here, *more)})
    gone = [file for file in files if hook.take_out(Path(file))]
    give_back(project.common_dir / RECORD, None)
    return gone


def _repository_of(file: Path) -> Path | None:
    """The git common directory of the repository that a file is in; None: it is in none, so several may share it."""
    try:
        return find_project(file.parent, initialised=False).common_dir
    except CorralError:
        return None


def _checkout() -> Git:
    checkout = find_checkout(here())
    if checkout is None:
        raise NotAProject(f"{here()} is in no checkout.", remedy="Change to a checkout of the repository.")
    return Git(checkout.git_dir, checkout.top)


def _recorded_hooks(project: Project) -> list[str]:
    try:
        record = json.loads((project.common_dir / RECORD).read_text(encoding="utf-8"))
        return [path for path in record["hooks"] if isinstance(path, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _remember(project: Project, hooks: set[str]) -> None:
    replace_file(project.common_dir / RECORD, json.dumps({"hooks": sorted(hooks)}).encode())
