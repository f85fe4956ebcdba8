"""``corral init``: prepare a repository."""

from __future__ import annotations

import difflib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from corral import __version__
from corral.client.connection import Client
from corral.config import account, worktree_root
from corral.config.custom.edit import with_value
from corral.config.document import DocumentError
from corral.config.initial import default_config, default_ignore, likely_verification
from corral.config.load import load
from corral.config.paths import Checkout, Project, bundle_dir, find_checkout, find_project
from corral.config.trust import Claim
from corral.core.errors import Conflict, CorralError, InvalidInput, NotFound, Unsupported
from corral.core.visible import visible
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.project import claude_settings, init_record, own_files, project_copies, verification
from corral.faces.cli.project import trust as project_trust
from corral.faces.cli.project.project_copies import Copies
from corral.faces.cli.terminal.context import Common
from corral.faces.cli.terminal.options import argument, command, here, option
from corral.faces.cli.terminal.output import echo, emit, for_programs, paint
from corral.faces.cli.terminal.person import confirm, is_terminal, refuse_agents
from corral.git import refs
from corral.git.process.command import Git, open_checkout, open_repository
from corral.work.templates.project.lock import SHIPPED, Lock, lock_file, metadata_of

_PURPOSES = {
    "settings.json": "for what a plugin cannot do (worktrees, denials without a daemon)",
    "settings.local.json": "for what is yours alone (a guard of edits that fails closed, a status line)",
}
"""The purpose of each change of Claude Code's settings."""


@command(prints="faces.cli.api.Initialised")
def init(
    path: Annotated[Path | None, argument("The repository (default: this one).", "PATH")] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False,
    target: Annotated[str | None, option("--target", "Branch that work lands on.", "BRANCH", of="branch")] = None,
    verify: Annotated[
        list[str] | None, option("--verify", "Command that must pass before anything lands; repeatable.", "CMD")
    ] = None,
    no_copies: Annotated[
        bool, Option("--no-copies", help="Write no agent and no skill into .claude/; the plugin has them.")
    ] = False,
    with_opencode: Annotated[
        bool, Option("--with-opencode", help="Write the agent OpenCode-Builder too, which sends code to Google.")
    ] = False,
    allow_tools: Annotated[
        bool | None,
        Option(
            "--allow-tools/--ask-for-tools",
            help="Let Claude Code use Corral's tools without a prompt (default: ask).",
        ),
    ] = None,
    status_line: Annotated[
        bool | None,
        Option(
            "--status-line/--no-status-line",
            help="Show `corral statusline` in Claude Code, where no status line is set (default: ask).",
        ),
    ] = None,
    template: Annotated[
        str | None,
        option("--template", "Template to install first: a git URL, path or archive, and #SUBFOLDER.", "URL"),
    ] = None,
    version: Annotated[
        str | None, option("--version", "The template's tag, branch or commit (default: latest).", "V")
    ] = None,
    update: Annotated[
        bool, Option("--update", help="Look at the template's repository though a cached copy is young enough.")
    ] = False,
    check: Annotated[
        bool, Option("--check/--no-check", help="Run the verification in a fresh worktree, for 20 s at most.")
    ] = True,
) -> None:
    """Prepare a repository: write .corral/ and, after showing it, hooks, an agent and a skill into .claude/."""
    project = find_project(path or here(), initialised=False)
    git = open_repository(project.common_dir)
    _refuse_unknown_checkout(project, find_checkout(path or here()), git)
    branch = _target(git, target or _configured_target(project))
    refs.refuse_taken_folder(git, "refs/heads/corral/task")  # no task could start
    prepared = _installed(project, template, version, update=update, yes=yes)
    if prepared and target is None:
        branch = _target(git, _configured_target(project))
    ask = not yes and not for_programs()
    answers = Answers(branch, target is not None, verify or [])
    files = _files(project, answers, may_change=bool(prepared) or (ask and is_terminal()))
    changes = project.config_file in files and project.config_file.exists()
    settings = None if project.bare else project.root / ".claude" / "settings.json"
    wants_copies = not project.bare and not no_copies
    allow = settings is not None and _wants_tools_allowed(settings, allow_tools, ask=ask)
    line = settings is not None and _wants_status_line(settings, status_line, ask=ask)
    edits: dict[Path, claude_settings.Edit] = {}
    if settings is not None:
        edits[settings] = claude_settings.plan(settings, strict=_strict(project), allow=allow)
    if settings is not None:
        edits[_local(settings)] = _own_settings(project, settings, status_line=line)
    recorded = init_record.copies(project)
    copies = project_copies.plan(project.root, recorded, with_opencode=with_opencode) if wants_copies else Copies({})
    files |= copies.texts
    lock, unrecorded = _shipped_lock(project, answers, files, copies)
    files |= {lock_file(project): lock.text()} if lock else {}
    copies = replace(copies, remarks=(*copies.remarks, *unrecorded))
    brought = project_trust.untrusted(project)
    place = _place(project)
    if not for_programs():
        _show(project, branch, files, edits, copies)
        _show_place(place)
        if brought:
            echo("Files in this repository's folder would run these commands on your machine:")
            project_trust.show(brought)
    if brought:
        refuse_agents("Approving commands", "corral init")
    seen = {
        **{file: own_files.content_of(file) for file in files},
        **{file: edit.before for file, edit in edits.items()},
    }
    question = "Change these settings?" if changes else "Write these files?"
    is_change = files or brought or any(edit.changes for edit in edits.values())
    if not yes and is_change and not confirm(question, default=not changes):
        raise Exit(1)
    if file := next((file for file, before in seen.items() if own_files.content_of(file) != before), None):
        raise Conflict(
            f"{file} was changed while you were asked.",
            cause="What was shown to you does not have that change, and would undo it.",
            remedy="Run `corral init` again; nothing was written.",
        )
    excluded = _excluded(project, edits.get(_local(settings))) if settings is not None else {}
    own_files.write(project, {**excluded, **_contents(project, files, edits, copies, lock, allow=allow)})
    _approve(project, brought, {os.path.relpath(file, project.root) for file in files})
    if for_programs():
        written = [str(file) for file in files]
        emit(
            {
                "project": str(project.root),
                "target": branch,
                "written": written,
                "worktrees": str(place.path),
                **prepared,
            }
        )
        return
    is_new = project.config_file in files and not changes and not verify
    _next_steps(project, unverified=is_new and project_trust.committed_config(project, branch) is None)
    if verify and check:
        verification.report(Client(project))


def _installed(
    project: Project, template: str | None, version: str | None, *, update: bool, yes: bool
) -> dict[str, Any]:
    """Install the template that a person named; empty if they named none."""
    if template is None:
        if version is not None or update:
            raise InvalidInput("--version and --update need --template.", remedy="Name the template: --template URL.")
        return {}
    from corral.work.templates.cli.installing import Wanted, install

    return {"template": install(project, Wanted(template, version, update), yes=yes)}


def _shipped_lock(
    project: Project, answers: Answers, files: dict[Path, str], copies: Copies
) -> tuple[Lock | None, list[str]]:
    """The lock of the shipped template, where a repository is prepared from it now; and a remark if it cannot be kept."""
    if project.config_file not in files or project.config_file.exists() or lock_file(project).exists():
        return None, []
    from corral.work.templates.cli.installing import shipped_lock

    names = [file.relative_to(project.root).as_posix() for file in copies.texts]
    try:
        return shipped_lock(project, answers.branch, answers.verify, names), []
    except CorralError as error:
        return None, [f"`corral template update` will not know what was written. {error.message} {error.cause}"]


def _wants_tools_allowed(settings: Path, option: bool | None, *, ask: bool) -> bool:
    """Whether Claude Code may use Corral's tools without a prompt."""
    if option is not None or not ask or not is_terminal() or claude_settings.allows(claude_settings.read(settings)):
        return bool(option)
    echo(f"Claude Code prompts before each use of Corral's tools, unless its settings allow {claude_settings.ALLOW}.")
    return confirm("Allow them in .claude/settings.json?", default=True)


def _wants_status_line(settings: Path, option: bool | None, *, ask: bool) -> bool:
    """Whether Claude Code is to show Corral's status line here; nobody is asked who has one."""
    places = (settings, _local(settings), account.home() / ".claude" / "settings.json")
    if option is not None or not ask or not is_terminal() or claude_settings.has_status_line(*places):
        return bool(option)
    echo("Claude Code can show in its status line who a session is, its locks and mail, the queue, and what needs you.")
    return confirm("Set it for yourself, in .claude/settings.local.json?", default=False)


def _own_settings(project: Project, settings: Path, *, status_line: bool) -> claude_settings.Edit:
    """The change of the person's own settings, with a note where git would take them along."""
    local = _local(settings)
    edit = claude_settings.plan_local(local, settings, status_line=status_line)
    name = local.relative_to(project.root).as_posix()
    if not edit.changes or _is_ignored(project, name):
        return edit
    note = f"git does not ignore {name} here; a line in .git/info/exclude will keep it out of commits"
    return replace(edit, remarks=(*edit.remarks, note))


def _excluded(project: Project, edit: claude_settings.Edit | None) -> dict[Path, bytes]:
    """The change of git's own list of what it ignores in this repository, where it does not ignore the person's settings."""
    name = claude_settings.EXCLUDED.split()[-1].decode().lstrip("/")
    if edit is None or not edit.changes or _is_ignored(project, name):
        return {}
    file = project.common_dir / "info" / "exclude"
    before = file.read_bytes() if file.exists() else b""
    return {file: before + (b"" if before.endswith(b"\n") or not before else b"\n") + claude_settings.EXCLUDED}


def _is_ignored(project: Project, name: str) -> bool:
    """Whether git ignores this path in the checkout; one that git has already it does not ignore."""
    return open_checkout(project.root).run("check-ignore", "--quiet", "--", name).ok


def _local(settings: Path) -> Path:
    """The settings beside these that are one person's, and not in git."""
    return settings.with_name("settings.local.json")


def _approve(project: Project, shown: Sequence[Claim], written: set[str]) -> None:
    """Record the approval of what was shown, and of what init itself wrote.

    Args:
        written: Repository-relative paths.
    """
    own = [claim for claim in project_trust.claims(project) if claim.source in written]
    project_trust.store().approve(project.common_dir, [*shown, *own])
    project_trust.tell_daemon(project)


def _strict(project: Project) -> bool:
    """Whether edits are refused while no daemon answers."""
    return load(project, environ=os.environ, home=account.home()).settings.locks.on_daemon_down == "deny"


def _refuse_unknown_checkout(project: Project, checkout: Checkout | None, git: Git) -> None:
    """Refuse a main checkout that git does not know: landings would not reach it."""
    elsewhere = project.bare and checkout is not None and checkout.git_dir == project.common_dir
    if checkout is None or not elsewhere or git.run("config", "--get", "core.worktree").ok:
        return
    raise Unsupported(
        f"Git does not know that {checkout.top} belongs to {project.common_dir}.",
        cause="The repository was made with --separate-git-dir, so landings cannot update the checkout.",
        remedy="Set core.worktree, then run `corral init` again: git config core.worktree "
        f"{shlex.quote(str(checkout.top))}",
    )


def _configured_target(project: Project) -> str | None:
    """The target of the existing configuration, whatever branch is checked out."""
    if not project.config_file.exists():
        return None
    return load(project, environ={}, home=account.home()).settings.landing.target


def _target(git: Git, named: str | None) -> str:
    """The target branch; it must have a commit."""
    if named is not None:
        ref = refs.branch_ref(named)
        if refs.read(git, ref) is None:
            raise NotFound(f"There is no branch {named!r}.", remedy="Name an existing branch, or create it first.")
        return named
    ref_name = refs.default_branch(git)
    if ref_name is None:
        raise InvalidInput(
            "No branch is checked out here, so the target branch is unknown.",
            cause="HEAD is detached.",
            remedy="Name it: `corral init --target BRANCH`.",
        )
    if refs.read(git, ref_name) is None:
        raise Unsupported(
            "The repository has no commit yet.",
            cause="Worktrees and merges start at a commit.",
            remedy="Make a first commit, then run `corral init` again.",
        )
    return ref_name.removeprefix("refs/heads/")


def _files(project: Project, answers: Answers, *, may_change: bool) -> dict[Path, str]:
    """The missing files of ``.corral/``, and the settings if a person gave other answers than they have."""
    files: dict[Path, str] = {}
    if (config := text_of(project, answers, may_change=may_change)) is not None:
        files[project.config_file] = config
    ignore = project.home / ".gitignore"
    if not ignore.exists():
        files[ignore] = default_ignore()
    return files


def _place(project: Project) -> worktree_root.Place:
    """Where the worktrees will stand."""
    configured = load(project, environ=os.environ, home=account.home()).settings.worktrees.root
    return worktree_root.choose(project, configured, worktree_root.known_id(project), account.home())


def _show_place(place: worktree_root.Place) -> None:
    echo(f"Worktrees of tasks and of verification will stand in {place.path}.")
    for reason in place.passed_over:
        echo(f"  not in {reason}")
    if warning := place.warning():
        echo(paint(f"note: {warning} {worktree_root.CLEANER}", "yellow"))


def _show(
    project: Project,
    branch: str,
    files: dict[Path, str],
    edits: Mapping[Path, claude_settings.Edit],
    copies: Copies,
) -> None:
    """Show everything that a yes writes. A copy of a plugin file is shown by its name."""
    if not files and not any(edit.changes for edit in edits.values()):
        echo("Nothing to do: everything is in place.")
    elif project.config_file in files and not project.config_file.exists():
        echo(f"Finished work will land on the branch {paint(branch, 'bold')} (to change it: --target BRANCH).")
    for file, text in files.items():
        name = file.relative_to(project.root).as_posix()
        if file == lock_file(project):
            echo(f"{paint('will write', 'bold')} {name}, the checksums of what the template wrote")
            continue
        if file in copies.texts:
            echo(f"{paint('will write', 'bold')} {name}, a copy of {bundle_dir() / project_copies.COPIES[name]}")
            continue
        if file.exists():
            echo(f"{paint('will change', 'bold')} {name}, where everything else stays:")
            _show_change(file.read_text(encoding="utf-8"), text)
            continue
        echo(f"{paint('will write', 'bold')} {name}:")
        for line in text.splitlines():
            echo(f"    {line}")
    for file, edit in edits.items():
        if edit.changes:
            verb = "will write" if edit.before is None else "will add to"
            purpose = _PURPOSES[file.name]
            echo(f"{paint(verb, 'bold')} .claude/{file.name}, {purpose}:")
            _show_change((edit.before or b"").decode("utf-8", "replace"), edit.after.decode("utf-8", "replace"))
    for remark in (*(remark for edit in edits.values() for remark in edit.remarks), *copies.remarks):
        echo(paint(f"note: {remark}", "yellow"))


def _show_change(before: str, after: str) -> None:
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1):
        if not line.startswith(("---", "+++", "@@")):
            echo("    " + visible(line))


def _contents(
    project: Project,
    files: dict[Path, str],
    edits: Mapping[Path, claude_settings.Edit],
    copies: Copies,
    lock: Lock | None,
    *,
    allow: bool,
) -> dict[Path, bytes]:
    """All files to write; the one that marks an initialised repository comes last, in case init is interrupted."""
    metadata = project.home / "metadata.json"
    contents = {file: text.encode() for file, text in files.items()}
    known, line = init_record.settings(project), init_record.local_settings(project)
    for file, edit in edits.items():
        if not edit.changes:
            continue
        contents[file] = edit.after
        if file.name == "settings.local.json":
            original = claude_settings.undo(file, line) if line else edit.before
            ours = bool(line and line.get("status_line")) or "statusLine" not in claude_settings.read(file)
            line = claude_settings.record(edit, original, status_line=ours)
            continue
        known = known or {}
        ours = (allow and not claude_settings.allows(claude_settings.read(file))) or bool(known.get("allow"))
        original = claude_settings.undo(file, known or None)
        known = claude_settings.record(edit, original, allow=ours, status_line=bool(known.get("status_line")))
    if contents.keys() & edits.keys() or copies.texts or lock or not metadata.exists():
        former = metadata_of(project)
        record: dict[str, Any] = {
            **{name: former[name] for name in ("template_version", "template_pin") if name in former},
            **({"template_version": lock.version, "template_pin": lock.pin()} if lock else {}),
            "version": __version__,
            "template": former["template"] if "template_pin" in former else SHIPPED,
            "claude_settings": known,
            "claude_local_settings": line,
            "copies": project_copies.record(project.root, copies, init_record.copies(project)),
        }
        contents[metadata] = (json.dumps(record, indent=2) + "\n").encode()
    if project.config_file in contents:
        contents[project.config_file] = contents.pop(project.config_file)
    return contents


def _next_steps(project: Project, *, unverified: bool) -> None:
    echo(paint(f"{project.root} is ready.", "green"))
    if unverified:
        verify = shlex.quote(likely_verification(project.root) or "YOUR TEST COMMAND")
        echo("  landing.verify in .corral/config.yaml is empty: work lands unverified until you set your test command,")
        echo(f"  for example:             corral init --verify {verify}")
    if not project.bare:
        copied = [name for name in project_copies.COPIES if (project.root / name).exists()]
        if metadata_of(project).get("template") != SHIPPED:
            copied = [name for name in (".claude", ".mcp.json") if (project.root / name).exists()]
        names = list(dict.fromkeys([".corral", ".claude/settings.json", *copied]))
        ignored = [name for name in names if _is_ignored(project, name)]
        shared = " ".join(name for name in names if name not in ignored)
        is_there = not Common.directory and here().resolve() == project.root
        go = "" if is_there else f"cd {shlex.quote(str(project.root))} && "
        # Naming the paths keeps other staged files out of the commit.
        if shared:
            commit = f"git add {shared} && git commit -m 'Coordinate with Corral' -- {shared}"
            echo(f"  Share it with your team: {go}{commit}")
        if ignored:
            echo(f"  Not shared, because git ignores it here: {', '.join(ignored)}")
    if not project.bare and not claude_settings.allows(
        claude_settings.read(project.root / ".claude" / "settings.json")
    ):
        echo("  Let Claude Code use Corral's tools without a prompt:  corral init --allow-tools")
    echo("  Submit a task:           corral task submit --title 'Say hello' --command 'echo hello > hello.txt'")
    echo("  Or start sessions:       claude   (see `corral status` in another terminal)")


# -- The settings that ``corral init`` writes: a new file, or other answers in an existing one, where comments stay


@dataclass(frozen=True)
class Answers:
    """The answers of a person who runs ``corral init``.

    Attributes:
        branch: The target.
        target_chosen: Whether the person named it.
        verify: The verification commands; empty if none were named.
    """

    branch: str
    target_chosen: bool
    verify: list[str]


def text_of(project: Project, answers: Answers, *, may_change: bool) -> str | None:
    """The text of ``.corral/config.yaml`` with these answers; None if it has them already.

    Args:
        may_change: Whether a person is asked before an existing file gets other settings.

    Raises:
        Conflict: The file has other settings and may not be changed, or cannot be changed.
    """
    if not project.config_file.exists():
        return default_config(answers.branch, answers.verify)
    others = _changed_settings(project, answers)
    if not others:
        return None
    if not may_change:
        raise Conflict(
            f"{project.config_file} exists already, with other settings.",
            cause="This repository was initialised before, with another target or other verification commands.",
            remedy="Run it in a terminal without --yes, which asks; or `corral config set landing.target BRANCH` and "
            "`corral config set landing.verify '[COMMAND]'`.",
        )
    content = project.config_file.read_bytes()
    try:
        for key, value in others.items():
            content = with_value(content, key.split("."), value)
    except DocumentError as error:
        raise Conflict(
            f"Cannot change {project.config_file}: it {error}.",
            cause="The file is not written as the settings to change need it.",
            remedy="Correct it: `corral config edit`.",
        ) from error
    return content.decode()


def _changed_settings(project: Project, answers: Answers) -> dict[str, str | list[str]]:
    """The named settings that have another value in the existing files."""
    landing = load(project, environ={}, home=account.home()).settings.landing
    others: dict[str, str | list[str]] = {}
    if answers.target_chosen and landing.target != answers.branch:
        others["landing.target"] = answers.branch
    if answers.verify and list(landing.verify) != answers.verify:
        others["landing.verify"] = answers.verify
    return others
