"""``corral uninstall``: remove everything that ``corral init`` and the daemon made in a repository."""

from __future__ import annotations

import shlex
import shutil
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from corral.client.connection import Client
from corral.config import initial
from corral.config.links import refuse_links
from corral.config.ownership import is_own
from corral.config.paths import Project, find_project
from corral.core.errors import CorralError, InvalidInput, NotFound, WorkAtRisk
from corral.core.visible import one_line
from corral.faces.cli.guard import commits
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.program import service
from corral.faces.cli.program.daemon import refuse_own_work, stop_and_wait
from corral.faces.cli.project import claude_settings, init_record, project_copies
from corral.faces.cli.project import trust as project_trust
from corral.faces.cli.project.own_files import clear_home, content_of, give_back, is_cleared, kept_at_home
from corral.faces.cli.terminal.options import argument, command, here
from corral.faces.cli.terminal.output import echo, for_programs, paint, report
from corral.faces.cli.terminal.person import confirm
from corral.faces.cli.terminal.progress import progress
from corral.git.checkouts import listing
from corral.git.process.command import open_checkout, open_repository
from corral.work.templates.project import plan
from corral.work.templates.project.lock import Lock, lock_file, read_lock

MOST_NAMED = 5


@command(prints="faces.cli.api.Uninstalled")
def uninstall(
    path: Annotated[Path | None, argument("The repository (default: this one).", "PATH")] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False,
) -> None:
    """Stop the daemon, remove .corral/ and restore .claude/. Saved work and the files that you changed stay."""
    project = find_project(path or here(), initialised=False)
    if not project.home.is_dir() or is_cleared(project):
        raise NotFound(
            f"Corral is not in {project.root}.",
            cause="It was never put there, or was removed already.",
            remedy="Nothing to do.",
        )
    refuse_links(project.home, project.root)
    refuse_own_work(project)
    _refuse_if_at_risk(project)
    if not for_programs():
        echo(
            f"{paint('will remove', 'bold')} {project.home} with its database, logs and worktrees; refs/corral/ and "
            "files that you changed stay."
        )
    if not yes and not confirm("Remove this?", default=True):
        raise Exit(1)
    left: list[str] = []
    if project.initialised:
        with progress("removing the worktrees"):
            answer = Client(project).request("POST", "/worktrees/retire", timeout_s=600)
        if answer["at_risk"]:
            named = "; ".join(f"{risk['what']}: {risk['why']}" for risk in answer["at_risk"][:MOST_NAMED])
            raise WorkAtRisk(
                f"Some worktrees could not be removed ({named}).",
                cause="Each stays for the reason that is named; so do the database and the settings.",
                remedy="Do what is said of each, then run `corral uninstall` again.",
                details={"at_risk": answer["at_risk"]},
            )
        left = answer["left"]
    stop_and_wait(project)
    service.remove(project)
    commits.take_out_everywhere(project)
    lock, kept = _lock(project)
    settings = project.root / ".claude" / "settings.json"
    if not project.bare:
        contents = {settings: claude_settings.undo(settings, init_record.settings(project))}
        if (line := init_record.local_settings(project)) is not None:
            local = settings.with_name("settings.local.json")
            contents[local] = claude_settings.undo(local, line)
            contents |= _in_worktrees(project, {**line, "original": None, "written_sha256": ""})
        exclude = project.common_dir / "info" / "exclude"
        if exclude.is_file():
            ours = (claude_settings.EXCLUDED, initial.EXCLUDED)
            contents[exclude] = reduce(lambda text, lines: text.replace(lines, b""), ours, exclude.read_bytes()) or None
        contents |= dict.fromkeys(project_copies.unchanged(project.root, init_record.copies(project)))
        if lock is not None:
            files = plan.plan(project, lock, contents)
            contents |= files.contents
            kept |= files.kept
        for file, content in contents.items():
            if claude_settings.is_link(file) and content_of(file) != content:
                kept[file.relative_to(project.root).as_posix()] = (
                    f"it is {file.resolve()}, from which Corral's entries are gone: run `corral init` in any other "
                    "repository that uses it"
                )
            give_back(file, content)
    project_trust.store().revoke(project.common_dir)
    kept |= dict.fromkeys(left, "something is in it that Corral did not make")
    kept = clear_home(project, {**kept, **kept_at_home(project, lock)})
    if project.database.parent != project.home:
        shutil.rmtree(project.database.parent, ignore_errors=True)
    landed = (admin / "corral.landed" for admin in listing.admin_dirs(open_repository(project.common_dir)))
    for file in (project.lock_file, project.common_dir / "corral.worktrees", *landed):
        file.unlink(missing_ok=True)
    shutil.rmtree(project.common_dir / "corral-tmp", ignore_errors=True)
    if (copies := project.common_dir / "corral-private").is_dir():
        kept[str(copies)] = "in it are files that git ignores, saved of worktrees; delete it yourself"
    refs = "git for-each-ref refs/corral refs/heads/corral refs/notes/corral"
    gone = (
        f"Removed Corral from {project.root}. Commit the deletions. `{refs}` lists saved work, branches and receipts."
    )
    report({"removed": str(project.home), "kept": kept}, gone)
    for name, reason in kept.items() if not for_programs() else ():
        echo(paint(f"{one_line(name)} stays: {one_line(reason)}.", "yellow"))


def _in_worktrees(project: Project, line: dict[str, Any]) -> dict[Path, bytes | None]:
    """The person's own settings in the linked worktrees that stay, without the hook that guards edits."""
    contents: dict[Path, bytes | None] = {}
    repo = open_checkout(project.root)
    for entry in listing.entries(repo):
        file = entry.path / ".claude" / "settings.local.json"
        if (
            file.is_file()
            and not listing.is_foreign(repo, entry.path)
            and not file.is_symlink()
            and file.parent.parent != project.root
            and is_own(file.stat().st_uid)
        ):
            with suppress(InvalidInput):  # not JSON: nobody's hook is in it
                contents[file] = claude_settings.undo(file, line)
    return contents


def _lock(project: Project) -> tuple[Lock | None, dict[str, str]]:
    """The lock of the project's template; and, if it cannot be read, that its files stay."""
    try:
        return read_lock(project), {}
    except CorralError as error:
        path = lock_file(project).relative_to(project.root).as_posix()
        return None, {path: f"its files are unknown: {error.message}"}


def _refuse_if_at_risk(project: Project) -> None:
    if not project.initialised:
        return
    client = Client(project)
    client.ensure_daemon()  # this query needs the daemon, even if a person has stopped it
    with progress("looking for work that is not saved"):
        risks = client.request("GET", "/worktrees/at-risk", timeout_s=120)
    if risks:
        named = "; ".join(f"{risk['what']}: {risk['why']}" for risk in risks[:MOST_NAMED])
        raise WorkAtRisk(
            f"There is work that is neither landed nor salvaged ({named}).",
            remedy="Wait for it (`corral wait --all`), or give it up: " + "; ".join(_settling_commands(risks)),
            details={"at_risk": risks},
        )


def _settling_commands(risks: list[dict[str, str]]) -> list[str]:
    """The commands that settle each item; removing a worktree saves its work."""
    commands = {"task": "corral task cancel", "merge": "corral merge cancel", "worktree": "corral worktree remove"}
    lines = []
    for kind, _, name in (risk["what"].partition(" ") for risk in risks[:MOST_NAMED]):
        lines.append(f"{commands[kind]} {shlex.quote(name)}" if kind in commands else f"move away {name}")
    if len(risks) > MOST_NAMED:
        lines.append(f"and {len(risks) - MOST_NAMED} more")
    return lines
