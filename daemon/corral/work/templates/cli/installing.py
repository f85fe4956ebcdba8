"""The part of ``corral init --template`` that comes before everything else: the template's own files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from corral import __version__
from corral.config import account
from corral.config.initial import default_config, default_ignore
from corral.config.load import USER_FILE, load
from corral.config.paths import Project, bundle_dir
from corral.core.errors import Conflict, InvalidInput, NotTrusted
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Exit
from corral.faces.cli.project.project_copies import COPIES
from corral.faces.cli.terminal.options import here
from corral.faces.cli.terminal.output import echo, for_programs, paint
from corral.faces.cli.terminal.person import confirm, refuse_agents
from corral.faces.cli.terminal.progress import progress
from corral.git.process.command import open_repository
from corral.git.remote import address as addresses
from corral.git.remote.address import Address
from corral.git.remote.cache import FetchedVersion, Obtained, Policy, TemplateCache, cache_folder
from corral.git.remote.parts import CONFIG, Part, Parts, installed
from corral.git.remote.versions import LATEST
from corral.work.templates.api import Brought
from corral.work.templates.project import journal, manifest, validation
from corral.work.templates.project.brought import brought
from corral.work.templates.project.journal import New
from corral.work.templates.project.lock import SHIPPED, Lock, checksums, lock_file, metadata_of, owned, read_lock
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


def install(project: Project, request: Wanted, *, yes: bool) -> dict[str, Any]:
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
    obtained = obtain(project, address, version, update=request.update)
    present = read_lock(project)
    lock = lock_of(project, obtained, version, present)
    _refuse_another(present, lock)
    parts = installed(obtained.parts)
    plan = steps(project.root, {}, parts, partial(merge_text, open_repository(project.common_dir)), installs=True)
    runs, notes = brought(parts), remarks(obtained)
    if not for_programs():
        show(f"template {address} {lock.version} ({lock.commit[:12]})", plan, notes)
        show_brought(runs)
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
    return journal.apply(project, {**contents, **marker}, now())


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
            cause="A project has one template, named in .corral/template.lock.",
            remedy="`corral template update` brings a new version. For another template, remove .corral/template.lock first.",
        )


# -- Obtain and check a project template, for the commands that install, compare and update one


def cache(project: Project | None) -> TemplateCache:
    """This user's cached templates.

    Args:
        project: Where they are used; its settings count. None: none is used.
    """
    if project is None:
        return _cache(Policy(lifetime_s=0), dict)
    return _cache(policy(project), partial(of_project, project))


def _cache(rules: Policy, of_shipped: Callable[[], Parts]) -> TemplateCache:
    return TemplateCache(cache_folder(os.environ, account.home()), time.sleep, rules, unsuitable, of_shipped)


def shipped_lock(project: Project, target: str, verify: list[str], copies: list[str]) -> Lock:
    """Keep the shipped template in the cache, and return its lock; of a project that is being prepared.

    Args:
        copies: The files of the plugin that the project gets copies of.

    Raises:
        CorralError: The cache cannot be written.
    """
    parts = shipped_parts(target, verify, copies)
    obtained = _cache(Policy(lifetime_s=0), lambda: parts).obtain(ADDRESS, LATEST, now())
    return replace(lock_of(project, obtained, LATEST, None), values={"target": target, "verify": verify})


def unsuitable(parts: Mapping[str, Part]) -> str:
    """Why a template does not suit this Corral; empty if it does."""
    return manifest.unsuitable(parts, __version__)


def policy(project: Project) -> Policy:
    """The settings of fetched templates. The files of a project do not replace the person's own signers.

    Raises:
        ConfigInvalid: The settings cannot be read.
    """
    loaded = load(project, environ=os.environ, home=account.home())
    chosen = loaded.settings.templates
    signers = chosen.allowed_signers
    for layer in loaded.layers.get("templates.allowed_signers", ()):
        if layer.source == USER_FILE and isinstance(layer.value, str):
            signers = layer.value.replace("~/", f"{account.home()}/", 1) if layer.value[:2] == "~/" else layer.value
    allowed = project.root / signers if signers is not None else None
    return Policy(chosen.cache_days * 24 * 3600, allowed)


def now() -> datetime:
    """The current instant."""
    return datetime.now(timezone.utc)


def obtain(project: Project, address: Address, version: str, *, update: bool) -> Obtained:
    """Fetch a template, and refuse one with errors.

    Raises:
        CorralError: It cannot be had, cannot be trusted, or has errors.
    """
    with progress(f"fetching {one_line(address.url)}"):
        obtained = cache(project).obtain(address, version, now(), update=update)
    if address.kind != "shipped":
        kept_since = obtained.version.fetched_at if obtained.from_cache else None
        validation.require_valid(obtained.parts, f"{address} {obtained.version.name}", kept_since)
    return obtained


def remarks(obtained: Obtained) -> list[str]:
    """Warnings about it, for a person."""
    return [text for text in (obtained.note, unsuitable(obtained.parts)) if text]


def lock_of(project: Project, obtained: Obtained, requested: str, before: Lock | None) -> Lock:
    """The lock of a template that is installed now.

    Args:
        before: That of the version that is installed already; None: none is.
    """
    version, parts = obtained.version, installed(obtained.parts)
    values = before.values if before is not None and before.source == obtained.address.url else {}
    return Lock(
        obtained.address.url, obtained.address.subfolder, version.name, version.kind, requested, version.commit,
        version.fetched_at, signer=obtained.signer, files=checksums(parts), values=values, **owned(project, parts, before),
    )  # fmt: skip


def address_of(lock: Lock) -> Address:
    """Where a project's template comes from."""
    if lock.source == SHIPPED:
        return ADDRESS
    here = Path("/")
    if lock.source.startswith("/") and not Path(lock.source).exists():
        return Address(lock.source, "file", "git", lock.subfolder)  # gone, but perhaps in the cache
    return replace(addresses.parse(lock.source, here), subfolder=lock.subfolder)


def kept_of(lock: Lock) -> FetchedVersion:
    """The installed version."""
    return FetchedVersion(lock.version, lock.kind, lock.commit, lock.fetched_at)


def base_of(project: Project, lock: Lock) -> dict[str, Part]:
    """The template's files as they were installed, proven by the checksums of the lock.

    Raises:
        NotTrusted: They are others.
        CorralError: They cannot be had.
    """
    parts = installed(cache(project).at_commit(address_of(lock), kept_of(lock), now()).parts)
    if checksums(parts) != lock.files:
        changed = sorted({*lock.files.items()} ^ {*checksums(parts).items()})
        raise NotTrusted(
            "The template's files are not those that template.lock has the checksums of.",
            cause=f"{changed[0][0]} differs at the commit {lock.commit[:12]}.",
            remedy="See `git log -p .corral/template.lock`; restore it with git, or run `corral template cache --clear`.",
        )
    return parts


def show_brought(entries: list[Brought]) -> None:
    """List what a template would run on this machine."""
    if entries:
        echo(paint("Of this template, these run on your machine, or permit something:", "yellow"))
    for entry in entries:
        echo(f"  {paint(one_line(entry['file']), 'bold')}  {one_line(entry['what'])}")
        for line in entry["runs"].splitlines() or [""]:
            echo(f"      {visible(line)}")


def new_in(after: Mapping[str, Part], before: list[Brought]) -> list[Brought]:
    """The commands of a new version that the installed one does not have."""
    from corral.work.templates.project.brought import brought

    return [entry for entry in brought(after) if entry not in before]


# -- The template that ships with Corral: what ``corral init`` writes, recorded in the lock like one that was fetched

ADDRESS = Address(SHIPPED, "file", "shipped")


def shipped_parts(target: str, verify: list[str], copies: Iterable[str]) -> dict[str, Part]:
    """The files of this version.

    Args:
        target: The branch that work lands on.
        verify: Commands that must pass before it does.
        copies: The files of the plugin that the project has copies of.
    """
    copied = {name: Part((bundle_dir() / COPIES[name]).read_bytes()) for name in copies if name in COPIES}
    return {CONFIG: Part(default_config(target, verify).encode()), **copied}


def of_project(project: Project) -> dict[str, Part]:
    """This version's files, with the values that a project was prepared with; none if it has another template."""
    lock = read_lock(project)
    if lock is None or lock.source != SHIPPED:
        return {}
    values: dict[str, Any] = lock.values
    return shipped_parts(
        str(values.get("target", "")), [str(command) for command in values.get("verify", ())], lock.files
    )
