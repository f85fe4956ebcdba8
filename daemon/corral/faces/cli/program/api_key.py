"""``corral config set-key``, ``remove-key`` and ``key-status``: the key for the Messages API. None of them needs a daemon."""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from corral.client.connection import Client
from corral.config import account
from corral.config.keys.key_file import KeyFile, config_folder
from corral.config.keys.keychain import API_KEY, PERSON_TIMEOUT_S, WEBHOOK_SECRET, Keychain, KeyKind, NoKeychain
from corral.config.keys.lookup import WEBHOOK_VARIABLE, Lookup, Places, Source, WebhookSecret, places_of
from corral.config.paths import Project, find_project
from corral.core.errors import CorralError, InvalidInput, NotAProject
from corral.faces.cli.parsing import Context, Option
from corral.faces.cli.terminal.context import here
from corral.faces.cli.terminal.output import echo, emit, for_programs, paint, printed, report
from corral.faces.cli.terminal.person import is_terminal, refuse_agents
from corral.faces.cli.terminal.tables import table

if TYPE_CHECKING:
    from corral.config.keys.api import KeyStatus
    from corral.faces.cli.api import KeyLook

_LARGEST = 64 * 1024
_NAMES = {
    Source.ENVIRONMENT: "environment",
    Source.KEYCHAIN: "keychain",
    Source.FILE: "encrypted file",
    Source.DOTENV: ".env",
}


def set_key(
    context: Context,
    file: Annotated[bool, Option("--file", help="Use the encrypted file, not the keychain.")] = False,
    webhook: Annotated[
        bool, Option("--webhook", help="Store the secret that notifications to the webhook are signed with.")
    ] = False,
) -> None:
    """Store the key for the Messages API, from a prompt or standard input."""
    kind = WEBHOOK_SECRET if webhook else API_KEY
    if context.args:
        raise InvalidInput(
            f"The {kind.words} is never an argument.",
            cause="Arguments are in the shell's history, and every user of the machine can see them.",
            remedy=f"Run `{kind.storing}` and type it, or give it on standard input. Replace one that you have given as "
            "an argument.",
        )
    refuse_agents(f"Storing the {kind.words}", kind.storing)
    key = kind.checked(_typed(kind))
    if webhook:
        in_keychain = WebhookSecret(os.environ, PERSON_TIMEOUT_S).store(key, in_file=file)
        kept_in = Source.KEYCHAIN if in_keychain else Source.FILE
        shadow = WEBHOOK_VARIABLE in os.environ
        answer = {"stored_in": kept_in.value, "shadowed_by_environment": shadow, "daemon": None}
        report(answer, f"The signing secret is stored in the {_NAMES[kept_in]}.")
        return
    stored_in = _store(key, in_file=file)
    daemon = _tell_daemon()
    shadow = os.environ.get("ANTHROPIC_API_KEY") is not None
    if printed({"stored_in": stored_in.value, "shadowed_by_environment": shadow, "daemon": daemon}):
        return
    echo(f"The key is stored in the {_NAMES[stored_in]}.")
    if shadow:
        echo(paint("ANTHROPIC_API_KEY is set in this shell and comes first.", "yellow"))
    _compare(stored_in, daemon)


def remove_key(
    webhook: Annotated[bool, Option("--webhook", help="Remove the webhook's signing secret.")] = False,
) -> None:
    """Remove the stored key from the keychain and the encrypted file."""
    kind = WEBHOOK_SECRET if webhook else API_KEY
    refuse_agents(f"Removing the {kind.words}", f"corral config remove-key{kind.options}")
    if webhook:
        places = WebhookSecret(os.environ, PERSON_TIMEOUT_S).remove()
        answer = {"removed_from": places, "daemon": None}
        report(answer, f"Removed from: {', '.join(places) or 'nowhere, none is stored'}.")
        return
    stored = _stored()
    removed = [Source.FILE] if stored.delete() else []
    try:
        if Keychain(os.environ, PERSON_TIMEOUT_S).delete():
            removed.insert(0, Source.KEYCHAIN)
    except NoKeychain:
        pass
    daemon = _tell_daemon()
    if for_programs():
        emit({"removed_from": [source.value for source in removed], "daemon": daemon})
    elif removed:
        echo(f"The key is removed from the {' and the '.join(_NAMES[source] for source in removed)}.")
    else:
        echo("No key is stored. Keys in the environment or in .env stay.")


def key_status() -> None:
    """Show where the key for the Messages API comes from."""
    project = _project()
    looks = list(_places(project, PERSON_TIMEOUT_S).lookups())
    used = next((look for look in looks if look.key is not None), None)
    daemon = _ask_daemon(project, "GET", "/keys")
    if for_programs():
        key = used.key if used else None
        emit(
            {
                "source": key.source.value if key else None,
                "ending": key.ending if key else None,
                "places": [_wire(look) for look in looks],
                "daemon": daemon,
            }
        )
        return
    rows = [{"place": _NAMES[look.source], **_row(look, is_used=look is used)} for look in looks]
    table(rows, [("PLACE", "place", 16), ("KEY", "key", 24), ("NOTE", "note", 300)], empty="")
    if used is None:
        echo("There is no key: `corral config set-key` stores one.")
    if daemon is not None:
        _compare(used.source if used else None, daemon)


def _wire(look: Lookup) -> KeyLook:
    problem = f"{look.error.message} {look.error.cause}" if look.error else None
    return {
        "place": look.source.value,
        "has_key": look.key is not None,
        "ending": look.key.ending if look.key else None,
        "note": look.note or None,
        "problem": problem,
        "remedy": look.error.remedy if look.error else None,
    }


def _row(look: Lookup, *, is_used: bool) -> dict[str, str]:
    if look.error is not None:
        return {"key": paint("error", "red"), "note": f"{look.error.message} {look.error.remedy}"}
    if look.key is None:
        return {"key": "none", "note": ""}
    key = f"…{look.key.ending}" if look.key.ending else "too short to show"
    return {"key": f"{key} (used)" if is_used else key, "note": look.note}


def _compare(source: Source | None, daemon: KeyStatus | None) -> None:
    """Say what the running daemon uses, where it is something else."""
    if daemon is None:
        return
    if daemon["problem"] is not None:
        echo(paint(f"The running daemon has no key: {daemon['problem']} {daemon['remedy']}", "yellow"))
    elif daemon["source"] != (source.value if source else None):
        from_where = _NAMES[Source(daemon["source"])] if daemon["source"] else "nowhere"
        ending = f" (…{daemon['ending']})" if daemon["ending"] else ""
        echo(
            paint(
                f"The running daemon has its key from: {from_where}{ending}. `corral daemon restart` starts it with "
                "this shell's environment.",
                "yellow",
            )
        )


def _typed(kind: KeyKind) -> str:
    """The key, from a prompt without echo or all of standard input."""
    if is_terminal():
        try:
            return getpass.getpass(f"{kind.words[0].upper()}{kind.words[1:]}: ")
        except EOFError:
            return ""
    data = sys.stdin.buffer.read(_LARGEST + 1)
    return data.decode("utf-8", "replace")


def _store(key: str, *, in_file: bool) -> Source:
    stored = _stored()
    if not in_file:
        try:
            Keychain(os.environ, PERSON_TIMEOUT_S).put(key)
        except NoKeychain:
            pass
        else:
            stored.point_to_keychain()
            return Source.KEYCHAIN
    stored.put(key)
    return Source.FILE


def _stored() -> KeyFile:
    return KeyFile(config_folder(os.environ, account.home()))


def _project() -> Project | None:
    try:
        return find_project(here())
    except NotAProject:
        return None


def _places(project: Project | None, timeout_s: float) -> Places:
    from corral.git.checkouts.ignored import is_tracked  # slow to import

    return places_of(project, os.environ, is_tracked, timeout_s)


def _tell_daemon() -> KeyStatus | None:
    """Have this project's daemon look again; those of other projects do within half a minute."""
    return _ask_daemon(_project(), "POST", "/keys/reload")


def _ask_daemon(project: Project | None, method: str, path: str) -> KeyStatus | None:
    """The answer of the running daemon; None if none runs, or it cannot answer."""
    if project is None:
        return None
    with closing(Client(project, autostart=False)) as client:
        try:
            answer: KeyStatus = client.request(method, path)
        except CorralError:
            return None
    return answer
