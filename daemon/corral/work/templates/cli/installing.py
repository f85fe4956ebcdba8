"""The part of ``corral init --template`` that comes before everything else: the template's own files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral import __version__
from corral.config.initial import default_ignore
from corral.config.paths import Project
from corral.core.errors import Conflict, InvalidInput
from corral.core.visible import one_line
from corral.faces.cli.parsing import Exit
from corral.faces.cli.terminal.options import here
from corral.faces.cli.terminal.output import echo, paint
from corral.faces.cli.terminal.person import confirm, refuse_agents
from corral.git.process.command import open_repository
from corral.git.remote import address as addresses
from corral.git.remote.parts import CONFIG, installed
from corral.git.remote.versions import LATEST
from corral.work.templates.cli import obtaining
from corral.work.templates.project import journal
from corral.work.templates.project.brought import brought
from corral.work.templates.project.journal import New
from corral.work.templates.project.lock import SHIPPED, Lock, lock_file, metadata_of, read_lock
from corral.work.templates.project.merging import merge_text
from corral.work.templates.project.plan import CHANGING, Step, steps


@dataclass(frozen=True)
class Wanted:
    """The template that a person named.

    Attributes:
        update: Whether to look at its repository though the cache is young enough.
    """

    address: str
    version: str | None = None
    update: bool = False


def install(project: Project, request: Wanted, *, yes: bool, as_json: bool) -> dict[str, Any]:
    """Install a template's files into a repository; show them, and what they would run, before.

    Returns:
        ``{source, version, commit, signer, files, runs, from_cache, remarks}``.

    Raises:
        CorralError: The template is refused, or there is another one.
    """
    if project.bare:
        raise InvalidInput("A bare repository has no place for a template's files.", remedy="Run it in a checkout.")
    journal.recover(project)
    address = addresses.parse(request.address, here())
    version = request.version or LATEST
    obtained = obtaining.obtain(project, address, version, update=request.update)
    present = read_lock(project)
    lock = obtaining.lock_of(project, obtained, version, present)
    _refuse_another(present, lock)
    parts = installed(obtained.parts)
    plan = steps(project.root, {}, parts, partial(merge_text, open_repository(project.common_dir)), installs=True)
    runs, notes = brought(parts), obtaining.remarks(obtained)
    if not as_json:
        show(f"template {address} {lock.version} ({lock.commit[:12]})", plan, notes)
        obtaining.show_brought(runs)
    if runs:
        refuse_agents("Installing hooks, MCP servers and commands", "corral init --template")
    if not yes and not confirm("Install this template?", default=not runs):
        raise Exit(1)
    record(project, plan, lock)
    return {
        "source": str(address),
        "version": lock.version,
        "commit": lock.commit,
        "signer": lock.signer,
        "files": {step.path: step.action for step in plan},
        "runs": runs,
        "from_cache": obtained.from_cache,
        "remarks": notes,
    }


def record(project: Project, plan: list[Step], lock: Lock) -> journal.Done:
    """Write a plan's files, the lock and this machine's record; last the settings, which mark a repository as prepared."""
    contents = {step.path: New(step.data, step.executable) for step in plan if step.action in CHANGING}
    marker = {CONFIG: contents.pop(CONFIG)} if CONFIG in contents else {}
    home = project.home.relative_to(project.root).as_posix()
    project.home.mkdir(exist_ok=True)
    if (ignore := _ignore(project)) is not None:
        contents[f"{home}/.gitignore"] = New(ignore)
    metadata = {"version": __version__, **metadata_of(project)}
    metadata |= {"template": f"{lock.source}#{lock.subfolder}" if lock.subfolder else lock.source}
    metadata |= {"template_version": lock.version, "template_pin": lock.pin()}
    contents[lock_file(project).relative_to(project.root).as_posix()] = New(lock.text().encode())
    contents[f"{home}/metadata.json"] = New((json.dumps(metadata, indent=2) + "\n").encode())
    return journal.apply(project, {**contents, **marker}, obtaining.now())


def _ignore(project: Project) -> bytes | None:
    """The ``.corral/.gitignore`` in which the lock is shared; None if it is so already."""
    try:
        ignored = (project.home / ".gitignore").read_bytes()
    except FileNotFoundError:
        return default_ignore().encode()
    line = f"!{lock_file(project).name}\n".encode()
    return None if line in ignored else ignored + (b"" if ignored.endswith(b"\n") else b"\n") + line


def show(title: str, plan: list[Step], notes: list[str]) -> None:
    """Show what a plan does."""
    echo(paint(one_line(title), "bold"))
    for step in plan:
        if step.action != "same":
            echo(f"  {step.action:8}  {one_line(step.path)}{f' ({one_line(step.reason)})' if step.reason else ''}")
    for note in notes:
        echo(paint(f"note: {one_line(note)}", "yellow"))


def _refuse_another(present: Lock | None, lock: Lock) -> None:
    if (
        present is not None
        and present.source != SHIPPED
        and (present.source, present.subfolder, present.commit)
        != (
            lock.source,
            lock.subfolder,
            lock.commit,
        )
    ):
        raise Conflict(
            f"This project has the template {present.source} {present.version} already.",
            remedy="`corral template update` brings a new version. For another template, remove .corral/template.lock first.",
        )
