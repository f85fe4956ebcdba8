"""``corral init`` and ``corral uninstall``: prepare a repository, and take all of it back."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from corral import __version__
from corral.cli import claude_settings, project_copies
from corral.cli.daemon import stop_and_wait
from corral.cli.options import Json, here
from corral.cli.output import emit, paint, say
from corral.cli.project_copies import Copies
from corral.client import Client
from corral.config.initial import default_config
from corral.config.paths import Checkout, Project, find_checkout, find_project
from corral.errors import Conflict, InvalidInput, NotFound, Unsupported, WorkAtRisk
from corral.git import refs
from corral.git.command import Git, open_repository

IGNORED = """\
# Shared with the team: the settings, the teams, the templates, the roadmap. Everything else belongs to this machine.
*
!.gitignore
!config.yaml
!teams.yaml
!templates/
!templates/**
!state/
state/*
!state/roadmap.yaml
"""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("init")(init)
    app.command("uninstall")(uninstall)


def init(
    path: Annotated[Path | None, typer.Argument(help="The repository; by default this one.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    target: Annotated[str | None, typer.Option("--target", help="Work lands on this branch.", metavar="BRANCH")] = None,
    verify: Annotated[
        list[str] | None, typer.Option("--verify", help="Must pass before anything lands; repeatable.", metavar="CMD")
    ] = None,
    no_copies: Annotated[
        bool, typer.Option("--no-copies", help="Put no agent and no skill into .claude/; the plugin has them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Prepare a repository: write .corral/, and after showing it, hooks, an agent and a skill into .claude/."""
    project = find_project(path or here(), initialised=False)
    git = open_repository(project.common_dir)
    _refuse_unknown_checkout(project, find_checkout(path or here()), git)
    branch = _target(git, target)
    files = _files(project, branch, verify, chosen=target is not None or bool(verify))
    settings = None if project.bare else project.root / ".claude" / "settings.json"
    edit = claude_settings.plan(settings, strict=_strict(project)) if settings else None
    wanted = not project.bare and not no_copies
    copies = project_copies.plan(project.root, _copied(project)) if wanted else Copies({})
    files |= copies.texts
    if not as_json:
        _show(project, files, settings, edit, copies.remarks)
    if not yes and (files or (edit and edit.changes)) and not _agreed():
        raise typer.Exit(1)
    _write(project, _contents(project, files, settings, edit, copies))
    if as_json:
        emit({"project": str(project.root), "target": branch, "written": [str(file) for file in files]})
        return
    _next_steps(project, unverified=project.config_file in files and not verify)


def _strict(project: Project) -> bool:
    """Whether an edit is to be refused while no daemon answers."""
    from corral.config.load import load  # the schema is heavy, and only this command needs it here

    return load(project, environ=os.environ, home=Path.home()).settings.locks.on_daemon_down == "deny"


def _refuse_unknown_checkout(project: Project, checkout: Checkout | None, git: Git) -> None:
    """A main checkout that only knows where its git directory is, and not the other way round, would not see what lands."""
    elsewhere = project.bare and checkout is not None and checkout.git_dir == project.common_dir
    if checkout is None or not elsewhere or git.run("config", "--get", "core.worktree").ok:
        return
    raise Unsupported(
        f"Git does not know that {checkout.top} belongs to {project.common_dir}.",
        cause="The repository was made with --separate-git-dir, so that landings could not be brought into the checkout.",
        remedy=f"Tell it, then run `corral init` again: git config core.worktree {shlex.quote(str(checkout.top))}",
    )


def _target(git: Git, named: str | None) -> str:
    """The branch where work lands; it must have a commit."""
    if named is not None:
        ref = refs.branch_ref(named)
        if refs.read(git, ref) is None:
            raise NotFound(f"There is no branch {named!r}.", remedy="Name an existing branch, or make it first.")
        return named
    ref_name = refs.default_branch(git)
    if ref_name is None:
        raise InvalidInput(
            "No branch is checked out here, so the branch where work shall land is not known.",
            cause="HEAD is detached.",
            remedy="Name it: `corral init --target BRANCH`.",
        )
    if refs.read(git, ref_name) is None:
        raise Unsupported(
            "The repository has no commit yet.",
            cause="Worktrees and merges begin at a commit.",
            remedy="Make a first commit, then run `corral init` again.",
        )
    return ref_name.removeprefix("refs/heads/")


def _files(project: Project, branch: str, verify: list[str] | None, *, chosen: bool) -> dict[Path, str]:
    """What is missing of ``.corral/``; a configuration that stands there is never overwritten."""
    files: dict[Path, str] = {}
    if not project.config_file.exists():
        files[project.config_file] = default_config(branch, verify or [])
    elif chosen:
        raise Conflict(
            f"{project.config_file} exists already.",
            cause="This repository was initialised before.",
            remedy="Edit `landing.target` and `landing.verify` in that file; the daemon takes it over at once.",
        )
    ignore = project.home / ".gitignore"
    if not ignore.exists():
        files[ignore] = IGNORED
    return files


def _show(
    project: Project,
    files: dict[Path, str],
    settings: Path | None,
    edit: claude_settings.Edit | None,
    remarks: Sequence[str],
) -> None:
    if not files and not (edit and edit.changes):
        say("Everything is in place already.")
    for file, text in files.items():
        say(f"{paint('will write', 'bold')} {file.relative_to(project.root)} ({len(text.splitlines())} lines)")
    if settings and edit and edit.changes:
        verb = "will write" if edit.before is None else "will add to"
        say(
            f"{paint(verb, 'bold')} .claude/settings.json, what a plugin cannot do (worktrees, denials without a daemon):"
        )
        before = (edit.before or b"").decode("utf-8", "replace").splitlines()
        after = edit.after.decode("utf-8", "replace").splitlines()
        for line in difflib.unified_diff(before, after, lineterm="", n=1):
            if not line.startswith(("---", "+++", "@@")):
                say("    " + (line if len(line) <= 110 else line[:109] + "…"))
    for remark in (*(edit.remarks if edit else ()), *remarks):
        say(paint(f"note: {remark}", "yellow"))


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput(
            "Nobody can be asked here.", cause="Standard input is not a terminal.", remedy="Say --yes to agree."
        )
    return typer.confirm("Go on?", default=True)


def _contents(
    project: Project,
    files: dict[Path, str],
    settings: Path | None,
    edit: claude_settings.Edit | None,
    copies: Copies,
) -> dict[Path, bytes]:
    """Everything that is to be written; the marker of an initialised repository comes last: half an init is no init."""
    metadata = project.home / "metadata.json"
    contents = {file: text.encode() for file, text in files.items()}
    known = _recorded(project)
    if settings and edit and edit.changes:
        contents[settings] = edit.after
        known = claude_settings.record(edit, claude_settings.undo(settings, known))
    if settings in contents or copies.texts or not metadata.exists():
        said = {
            "version": __version__,
            "template": "built-in",
            "claude_settings": known,
            "copies": project_copies.record(project.root, copies, _copied(project)),
        }
        contents[metadata] = (json.dumps(said, indent=2) + "\n").encode()
    if project.config_file in contents:
        contents[project.config_file] = contents.pop(project.config_file)
    return contents


def _write(project: Project, contents: dict[Path, bytes]) -> None:
    """Write all of it, or leave everything as it was."""
    fresh = not project.home.exists()
    before: dict[Path, bytes | None] = {}
    try:
        for folder in (project.home, project.run_dir, project.logs_dir, project.database.parent):
            folder.mkdir(mode=0o755 if folder == project.home else 0o700, parents=True, exist_ok=True)
        for file, content in contents.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            before[file] = file.read_bytes() if file.exists() else None
            _replace(file, content)
    except OSError as error:
        for file, content_before in before.items():
            with contextlib.suppress(OSError):
                _give_back(file, content_before)
        if fresh:
            shutil.rmtree(project.home, ignore_errors=True)
        raise InvalidInput(
            f"{error.filename or project.home} cannot be written.",
            cause=str(error.strerror),
            remedy="Make it writable for you, or free space, and run `corral init` again; nothing was changed.",
        ) from error


def _replace(file: Path, content: bytes) -> None:
    """Write beside and move in; through a symlink, to where it points."""
    target = Path(os.path.realpath(file))
    partial = target.with_name(f".{target.name}.corral-new")
    try:
        partial.write_bytes(content)
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _recorded(project: Project) -> dict[str, Any] | None:
    """What an earlier init did to the client's settings."""
    return _remembered(project, "claude_settings")


def _copied(project: Project) -> dict[str, str]:
    """What an earlier init copied: path to digest."""
    return _remembered(project, "copies") or {}


def _remembered(project: Project, what: str) -> dict[str, Any] | None:
    try:
        said = json.loads((project.home / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = said.get(what) if isinstance(said, dict) else None
    return found if isinstance(found, dict) else None


def _next_steps(project: Project, *, unverified: bool) -> None:
    say(paint(f"{project.root} is ready.", "green"))
    if unverified:
        say("  landing.verify in .corral/config.yaml is empty: work lands unverified until you name your test command.")
    if not project.bare:
        copied = [name for name in project_copies.COPIES if (project.root / name).exists()]
        shared = " ".join([".corral", ".claude/settings.json", *copied])
        say(f"  Share it with your team: git add {shared} && git commit -m 'Coordinate with Corral'")
    say("  Hand over a task:        corral task submit --title 'Say hello' --command 'echo hello > hello.txt'")
    say("  Or just start sessions:  claude   (see `corral status` from another terminal)")


def uninstall(
    path: Annotated[Path | None, typer.Argument(help="The repository; by default this one.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Stop the daemon, take .corral/ away and give .claude/ back as it was. Salvaged work stays in refs/corral/."""
    project = find_project(path or here(), initialised=False)
    if not project.home.is_dir():
        raise NotFound(f"There is no .corral in {project.root}.", remedy="Nothing is to be done.")
    _refuse_if_at_risk(project)
    if not as_json:
        say(f"{paint('will remove', 'bold')} {project.home} with its database, logs and worktrees; refs/corral/ stays.")
    if not yes and not _agreed():
        raise typer.Exit(1)
    if project.initialised:
        answer = Client(project).request("POST", "/worktrees/retire", timeout_s=600)
        if answer["at_risk"]:
            raise WorkAtRisk("Some worktrees could not be given back.", details={"at_risk": answer["at_risk"]})
    stop_and_wait(project)
    settings = project.root / ".claude" / "settings.json"
    if not project.bare:
        _give_back(settings, claude_settings.undo(settings, _recorded(project)))
        for file in project_copies.unchanged(project.root, _copied(project)):
            _give_back(file, None)
    shutil.rmtree(project.home)
    if project.database.parent != project.home:
        shutil.rmtree(project.database.parent, ignore_errors=True)
    for lock in (project.lock_file, project.common_dir / "corral.worktrees"):  # the daemon's, the list of worktrees'
        lock.unlink(missing_ok=True)
    if as_json:
        emit({"removed": str(project.home)})
    else:
        say(f"Corral is gone from {project.root}. `git for-each-ref refs/corral` lists what was saved.")


def _refuse_if_at_risk(project: Project) -> None:
    if not project.initialised:
        return
    risks = Client(project).request("GET", "/worktrees/at-risk", timeout_s=120)
    if risks:
        named = "; ".join(f"{risk['what']}: {risk['why']}" for risk in risks[:5])
        raise WorkAtRisk(
            f"There is work that is neither landed nor salvaged ({named}).",
            remedy="Wait for it (`corral wait --all`), cancel it, or `corral worktree remove NAME` (which saves it).",
            details={"at_risk": risks},
        )


def _give_back(file: Path, content: bytes | None) -> None:
    """Bring a file back to what it held; None: it, and the folders that hold nothing else, shall not exist."""
    if content is not None:
        if file.exists() and file.read_bytes() != content:
            _replace(file, content)
        return
    if not file.is_symlink():
        file.unlink(missing_ok=True)
    for folder in file.parents:
        if not folder.is_dir() or any(folder.iterdir()):
            break
        folder.rmdir()
