"""``corral trust``: see what the files of this project would have executed, and approve it once, by its content."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Annotated, Any

import typer

from corral.cli.terminal.options import Json, here
from corral.cli.terminal.output import emit, paint, say
from corral.cli.terminal.person import confirm, refuse_agents
from corral.client.connection import Client
from corral.config import account
from corral.config.load import load
from corral.config.paths import Project, find_project
from corral.config.trust import Claim, TrustStore, of_agents, of_settings, trust_file
from corral.errors import CorralError
from corral.git import refs
from corral.git.process.command import open_repository
from corral.models.visible import one_line, visible

COMMITTED = ".corral/config.yaml"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("trust")(trust)


def trust(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take every approval for this project back.")] = False,
    as_json: Json = False,
) -> None:
    """Show what this project's files would run on this machine, and approve it."""
    refuse_agents("Approving commands", "corral trust")
    project = find_project(here())
    answers = store()
    if revoke:
        gone = answers.revoke(project.common_dir)
        tell_daemon(project)
        emit({"revoked": gone}) if as_json else say("Nothing of this project is approved any more.")
        return
    found = untrusted(project)
    if not as_json:
        show(found)
    if found and not yes and not confirm("Let Corral run this on this machine?", default=False):
        raise typer.Exit(1)
    answers.approve(project.common_dir, found)
    left = tell_daemon(project)
    if as_json:
        emit({"approved": [claim.shown() for claim in found], "untrusted": left})
    elif left:
        say(
            paint(
                "The daemon still misses approvals: it has another HOME or XDG_STATE_HOME. `corral daemon restart`",
                "red",
            )
        )


def store() -> TrustStore:
    """This user's answers."""
    return TrustStore(trust_file(os.environ, account.home()))


def untrusted(project: Project) -> list[Claim]:
    """What the user has not approved of what the project's files say, here, on the target, and where merges wait to land.

    Raises:
        ConfigInvalid: A file is not valid.
    """
    found = {claim.digest: claim for claim in (*claims(project), *_told_by_daemon(project))}
    return store().missing(project.common_dir, found.values())


def claims(project: Project) -> Iterator[Claim]:
    """What the project's files would have executed, as they are here and as the target branch has committed them.

    Raises:
        ConfigInvalid: A file is not valid.
    """
    loaded = load(project, environ=os.environ, home=account.home())
    yield from of_settings(loaded, project.root)
    yield from of_agents(project)
    committed = committed_config(project, loaded.settings.landing.target)
    if committed is not None:
        at_target = load(project, environ=os.environ, home=account.home(), committed=committed)
        yield from of_settings(at_target, project.root)


def committed_config(project: Project, target: str | None) -> bytes | None:
    """``.corral/config.yaml`` as the target branch has it: what counts for landing; None: it has none."""
    git = open_repository(project.common_dir)
    ref = refs.branch_ref(target) if target else refs.default_branch(git)
    tip = refs.read(git, ref) if ref else None
    return refs.show_file(git, tip, COMMITTED) if tip else None


def show(found: Iterable[Claim]) -> None:
    """Print for people what would be run, and which file says so."""
    count = 0
    for count, claim in enumerate(found, 1):  # noqa: B007
        say(f"{paint('not approved', 'yellow')}  {paint(one_line(claim.key), 'bold')} in {one_line(claim.source)}")
        for line in _lines(claim.value):
            say(f"    {visible(line)}")
    if not count:
        say("Everything that this project's files would run is approved on this machine.")


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(str, value)
    elif isinstance(value, dict):
        for name, said in value.items():
            is_command = name == "command" and isinstance(said, list)
            yield f"{name}: {shlex.join(said) if is_command else json.dumps(said, ensure_ascii=False)}"
    else:
        yield str(value)


def tell_daemon(project: Project) -> list[Any]:
    """Have a daemon that runs go on by the new answers; returns what it still has none for."""
    return _ask(project, "POST", "/trust/reload")


def _told_by_daemon(project: Project) -> list[Claim]:
    return [Claim(item["key"], item["value"], item["source"]) for item in _ask(project, "GET", "/trust")]


def _ask(project: Project, method: str, path: str) -> list[Any]:
    """What a daemon that runs finds untrusted; nothing where none does: it reads the answers when it starts."""
    with closing(Client(project, autostart=False)) as client:
        try:
            found: list[Any] = client.request(method, path)["untrusted"]
        except CorralError:
            return []
    return found
