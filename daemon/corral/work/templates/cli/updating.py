"""``corral template update``: a new version of a project's template, merged with the project's own changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from corral.config.paths import Project
from corral.core.errors import Conflict, NotTrusted
from corral.core.visible import one_line
from corral.faces.cli.parsing import Exit
from corral.faces.cli.terminal.output import echo, emit, for_programs, paint, printed
from corral.faces.cli.terminal.person import ask, confirm, is_terminal, refuse_agents
from corral.git.process.command import open_repository
from corral.git.remote.cache import FetchedVersion, Obtained
from corral.git.remote.parts import CONFIG, Part, installed
from corral.git.remote.versions import LATEST, release_number
from corral.work.templates.api import Brought, TemplatePlan, TemplateUpdated
from corral.work.templates.cli import installing
from corral.work.templates.project import journal
from corral.work.templates.project.brought import brought
from corral.work.templates.project.lock import Lock, lock_file, require_lock
from corral.work.templates.project.merging import merge_text
from corral.work.templates.project.plan import CHANGING, Step, steps
from corral.work.templates.project.validation import as_line, findings

CHOICES = ("mine", "theirs", "markers")


@dataclass(frozen=True)
class Answers:
    """The answers of a person who updates a template.

    Attributes:
        version: The version to update to; None: the newest of the kind that is installed.
        on_conflict: One of :data:`CHOICES`; None: ask.
    """

    version: str | None = None
    on_conflict: str | None = None
    dry_run: bool = False
    yes: bool = False


def update(project: Project, answers: Answers) -> None:
    """Bring another version; keep what the project changed, back up what is replaced, and ask about conflicts.

    Raises:
        CorralError: It cannot be had or trusted, has errors, or conflicts that nobody decided about.
    """
    journal.recover(project)
    lock = require_lock(project)
    requested = answers.version or (lock.asked if lock.kind == "branch" else LATEST)
    base = installing.base_of(project, lock)
    obtained = installing.obtain(project, installing.address_of(lock), requested, update=True)
    _refuse_moved_tag(lock, obtained.version)
    new = installed(obtained.parts)
    if obtained.version.commit == lock.commit or (answers.version is None and _is_older(obtained.version, lock)):
        _say_nothing_newer(lock, obtained)
        return
    plan = steps(project.root, base, new, partial(merge_text, open_repository(project.common_dir)))
    plan = [_valid(step) for step in plan]
    runs = installing.new_in(new, brought(base))
    if not for_programs():
        installing.show(f"{lock.source}: {lock.version} → {obtained.version.name}", plan, installing.remarks(obtained))
        installing.show_brought(runs)
    if answers.dry_run:
        emit(_answer(lock, obtained, plan, runs)) if for_programs() else echo("Nothing was changed (--dry-run).")
        return
    if runs:
        refuse_agents("Installing hooks, MCP servers and commands", "corral template update")
    plan = [_resolved(step, answers) for step in plan]
    if not answers.yes and not confirm("Update these files?", default=not runs):
        raise Exit(1)
    requested = requested if lock.asked != LATEST else LATEST
    done = installing.record(project, plan, installing.lock_of(project, obtained, requested, lock))
    if for_programs():
        answer: TemplateUpdated = {
            **_answer(lock, obtained, plan, runs),
            "backup": str(done.backup),
            "left": list(done.left),
        }
        emit(answer)
        return
    for path in done.left:
        echo(paint(f"{one_line(path)} was changed meanwhile, and stays.", "yellow"))
    count = sum(step.action in CHANGING for step in plan)
    echo(
        paint(
            f"Updated to {one_line(obtained.version.name)}: {count} files. `corral template update --rollback` undoes it.",
            "green",
        )
    )


def roll_back(project: Project) -> None:
    """Restore the files as they were before the last update.

    Raises:
        NotFound: There was none.
    """
    lock = lock_file(project).relative_to(project.root).as_posix()
    done, restored = journal.roll_back(project, lock, installing.now())
    if printed({"restored": restored, "left": list(done.left)}):
        return
    echo(paint(f"Restored {len(restored)} files.", "green"))
    for path in done.left:
        echo(paint(f"{one_line(path)} was changed since, and stays.", "yellow"))


def _answer(lock: Lock, obtained: Obtained, plan: list[Step], runs: list[Brought]) -> TemplatePlan:
    return {
        "source": lock.source,
        "from": lock.version,
        "to": obtained.version.name,
        "commit": obtained.version.commit,
        "files": [{"path": step.path, "action": step.action, "reason": step.reason} for step in plan],
        "runs": runs,
        "remarks": installing.remarks(obtained),
    }


def _is_older(newest: FetchedVersion, lock: Lock) -> bool:
    """Whether a release that nobody named comes before the installed one: it suits this Corral, but nobody asked to go back."""
    newest_number, own_number = release_number(newest.name), release_number(lock.version)
    return newest_number is not None and own_number is not None and newest_number < own_number


def _say_nothing_newer(lock: Lock, obtained: Obtained) -> None:
    if printed(_answer(lock, obtained, [], [])):
        return
    for note in installing.remarks(obtained):
        echo(paint(f"note: {one_line(note)}", "yellow"))
    newest = "the newest version that suits this Corral" if obtained.note else "the newest version"
    echo(f"{one_line(obtained.version.name)} is {newest}; {one_line(lock.version)} is installed.")


def _refuse_moved_tag(lock: Lock, now: FetchedVersion) -> None:
    if lock.kind == now.kind == "tag" and lock.version == now.name and lock.commit != now.commit:
        raise NotTrusted(
            f"The tag {lock.version} of {lock.source} has moved.",
            cause=f"The project was prepared from {lock.commit[:12]}; the tag is {now.commit[:12]} now.",
            remedy="Ask the template's maintainers, or name another version: `corral template update --version V`.",
        )


def _valid(step: Step) -> Step:
    """The step; a conflict if both sides' changes are together no valid settings."""
    if step.path != CONFIG or step.action != "merge" or step.data is None:
        return step
    errors = [error for error in findings({CONFIG: Part(step.data)}) if error["file"] == CONFIG]
    return replace(step, action="conflict", reason=f"together not valid: {as_line(errors[0])}") if errors else step


_QUESTION = "Keep mine, take theirs, or leave markers in the file (mine, theirs, markers)?"


def _resolved(step: Step, answers: Answers) -> Step:
    if step.action != "conflict":
        return step
    choice = answers.on_conflict
    if choice is None:
        if not is_terminal() or for_programs():
            raise Conflict(
                f"{step.path} has a conflict: {step.reason}.",
                cause="You changed what the new version changes too, and this is not a terminal: cannot prompt.",
                remedy="Nothing was changed. Run it in a terminal, or add --on-conflict mine, theirs or markers.",
            )
        echo(f"{paint(one_line(step.path), 'bold')}: {one_line(step.reason)}")
        choice = ""
        while choice not in CHOICES:
            choice = ask(f"{_QUESTION} [mine]: ") or "mine"
    if choice == "mine":
        return replace(step, action="keep", data=None, reason="yours, instead of the new version's")
    if choice == "theirs":
        return replace(step, action="replace", data=step.theirs)
    return replace(step, action="merge", reason="conflict markers are left in it")
