"""``corral trust``: show the commands in this project's files, and approve them by content."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Annotated, Any

from corral.client.connection import Client
from corral.config import account
from corral.config.custom.aliases import aliases_of
from corral.config.load import load, read_layers
from corral.config.paths import Project, find_project
from corral.config.trust import Claim, TrustStore, of_agents, of_aliases, of_settings, origin_of, trust_file
from corral.core.errors import CorralError
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.terminal.options import command, here
from corral.faces.cli.terminal.output import echo, emit, for_programs, paint, report
from corral.faces.cli.terminal.person import confirm, refuse_agents
from corral.git import refs
from corral.git.process.command import open_repository

COMMITTED = ".corral/config.yaml"


@command(prints="faces.cli.api.Trust")
def trust(
    yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False,
    revoke: Annotated[bool, Option("--revoke", help="Revoke every approval for this project.")] = False,
) -> None:
    """Show what this project's files would run on this machine, and approve it."""
    refuse_agents("Approving commands", "corral trust")
    project = find_project(here())
    answers = store()
    if revoke:
        gone = answers.revoke(project.common_dir)
        tell_daemon(project)
        report({"revoked": gone}, "All approvals for this project are revoked.")
        return
    unapproved = untrusted(project)
    if not for_programs():
        show(unapproved)
    if unapproved and not yes and not confirm("Allow Corral to run these on this machine?", default=False):
        raise Exit(1)
    answers.approve(project.common_dir, unapproved)
    left = tell_daemon(project)
    if for_programs():
        emit({"approved": [vars(claim) for claim in unapproved], "untrusted": left})
    elif left:
        echo(
            paint(
                "The daemon does not see these approvals: it has another HOME or XDG_STATE_HOME. Run `corral "
                "daemon restart`.",
                "red",
            )
        )
    elif unapproved:
        echo("Approved.")


def store() -> TrustStore:
    """This user's approvals."""
    return TrustStore(trust_file(os.environ, account.home()))


def untrusted(project: Project) -> list[Claim]:
    """The unapproved commands of the project's files: here, on the target, and where merges wait to land.

    Raises:
        ConfigInvalid: A file is not valid.
    """
    by_digest = {claim.digest: claim for claim in (*claims(project), *_told_by_daemon(project))}
    return store().missing(project.common_dir, by_digest.values())


def claims(project: Project) -> Iterator[Claim]:
    """The commands in the project's files, as they are here and as the target branch has them.

    Raises:
        ConfigInvalid: A file is not valid.
    """
    loaded = load(project, environ=os.environ, home=account.home())
    yield from of_settings(loaded, project.root)
    yield from of_agents(project)
    yield from of_aliases(aliases_of(read_layers(project, account.home())).values())
    committed = committed_config(project, loaded.settings.landing.target)
    if committed is not None:
        at_target = load(project, environ=os.environ, home=account.home(), committed=committed)
        yield from of_settings(at_target, project.root)


def committed_config(project: Project, target: str | None) -> bytes | None:
    """``.corral/config.yaml`` of the target branch, which decides about landing; None if it has none."""
    git = open_repository(project.common_dir)
    ref = refs.branch_ref(target) if target else refs.default_branch(git)
    tip = refs.read(git, ref) if ref else None
    return refs.show_file(git, tip, COMMITTED) if tip else None


def show(unapproved: Iterable[Claim]) -> None:
    """Print the commands and the files that contain them."""
    claims = list(unapproved)
    for claim in claims:
        echo(f"{paint('not approved', 'yellow')}  {paint(one_line(claim.key), 'bold')} in {one_line(claim.source)}")
        for line in _lines(claim.value):
            echo(f"    {visible(line)}")
    echo(
        paint(origin_of(claims), "dim")
        if claims
        else "All commands in this project's files are approved on this machine."
    )


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(str, value)
    elif isinstance(value, dict):
        for name, part in value.items():
            is_command = name == "command" and isinstance(part, list)
            yield f"{name}: {shlex.join(part) if is_command else json.dumps(part, ensure_ascii=False)}"
    else:
        yield str(value)


def tell_daemon(project: Project) -> list[Any]:
    """Tell a running daemon about new approvals; returns what it still finds unapproved."""
    return _ask(project, "POST", "/trust/reload")


def _told_by_daemon(project: Project) -> list[Claim]:
    return [Claim(item["key"], item["value"], item["source"]) for item in _ask(project, "GET", "/trust")]


def _ask(project: Project, method: str, path: str) -> list[Any]:
    """The commands that a running daemon finds unapproved; empty if none runs: it reads the approvals when it starts."""
    with closing(Client(project, autostart=False)) as client:
        try:
            unapproved: list[Any] = client.request(method, path)["untrusted"]
        except CorralError:
            return []
    return unapproved
