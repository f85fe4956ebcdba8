"""What commands of the program itself print as JSON, where that is no answer of the daemon."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict
from typing_extensions import NotRequired, TypedDict

from corral.config.keys.api import KeyPlace, KeyStatus
from corral.core.answers import FieldError, Instant, one_of
from corral.work.templates.api import Brought, UpdateAction
from corral.work.trust.api import UnapprovedCommand

_Open = ConfigDict(extra="allow")


class DoctorCheck(TypedDict):
    """A check of this machine or repository; ``remedy``: what to do, empty where nothing is to be done."""

    check: str
    status: Annotated[str, one_of("ok", "warning", "error")]
    message: str
    remedy: str


class TemplateInstalled(TypedDict):
    """A template that was installed.

    ``signer``: null where its signature was not checked; ``files``: what was done with each, by path; ``remarks``: for a person.
    """

    source: str
    version: str
    commit: str
    signer: str | None
    files: dict[str, UpdateAction]
    runs: list[Brought]
    from_cache: bool
    remarks: list[str]


class Initialised(TypedDict):
    """A repository that is ready; ``target``: the branch that work lands on; ``worktrees``: the folder that they will be in."""

    project: str
    target: str
    written: list[str]
    worktrees: str
    template: NotRequired[TemplateInstalled]


class Uninstalled(TypedDict):
    """``removed``: the folder; ``kept``: why a file or folder stays, by its path."""

    removed: str
    kept: dict[str, str]


class Trusted(TypedDict):
    """The commands that were approved; ``untrusted``: those that the running daemon still finds unapproved."""

    approved: list[UnapprovedCommand]
    untrusted: list[UnapprovedCommand]


class TrustRevoked(TypedDict):
    """Whether there were approvals for this project."""

    revoked: bool


Trust = Trusted | TrustRevoked


class AliasListed(TypedDict):
    """An alias.

    ``command``: without `corral`; ``source``: its file; ``hidden``: a command of that name counts instead; ``approved``: a
    person has approved it on this machine, if that is needed.
    """

    name: str
    command: str
    source: str
    hidden: bool
    approved: bool


class AliasRemoved(TypedDict):
    """An alias that was removed from a file."""

    name: str
    source: str
    removed: Literal[True]


class SettingInForce(TypedDict):
    """A setting; ``value``: of its type; ``source``: `default`, a file or a variable; ``profile``: the one that sets it."""

    key: str
    value: Any
    source: str
    profile: str | None


class SettingsShown(TypedDict):
    """The settings in force; ``warnings``: what of the files is ignored, and why."""

    profile: str
    settings: list[SettingInForce]
    warnings: list[str]


class SettingWritten(SettingInForce):
    """A setting as it is in force after a file was written; ``changed``: whether the file was."""

    file: str
    changed: bool


class SettingLayer(TypedDict):
    """A file or variable that sets a setting; ``why``: it counts, or does not."""

    source: str
    profile: str | None
    value: Any
    counts: bool
    why: str


class SettingOfDaemon(TypedDict):
    """The setting that the running daemon has."""

    value: Any
    source: str
    profile: str | None


class SettingExplained(SettingInForce):
    """A setting with its reasons.

    ``type``: the accepted values, in words; ``variable``: the one that sets it; ``layers``: the last one counts; ``daemon``: null
    where none runs.
    """

    description: str
    type: str
    default: Any
    variable: str
    layers: list[SettingLayer]
    daemon: SettingOfDaemon | None


class FileEdited(TypedDict):
    """A file that was open in an editor."""

    file: str
    changed: bool


class SettingError(FieldError):
    """A setting that is not valid; ``source``: its file or variable."""

    source: str


class SettingsValidated(TypedDict):
    """Whether the files are valid; ``warnings``: what of them is ignored, and why."""

    valid: bool
    errors: list[SettingError]
    warnings: list[str]


class ProfileListed(TypedDict):
    """A profile; ``inherits``: other profiles; ``files``: those that declare it."""

    name: str
    active: bool
    inherits: list[str]
    files: list[str]


class KeyStored(TypedDict):
    """The place that has the key now.

    ``shadowed_by_environment``: a variable of this shell comes first; ``daemon``: null where none runs, and for the webhook.
    """

    stored_in: KeyPlace
    shadowed_by_environment: bool
    daemon: KeyStatus | None


class KeyRemoved(TypedDict):
    """The places that had the key; ``daemon``: null where none runs, and for the webhook."""

    removed_from: list[KeyPlace]
    daemon: KeyStatus | None


class KeyLook(TypedDict):
    """What one place has.

    ``ending``: at most the last four characters; ``note``: why there is none, or what is wrong with a key there; ``problem``:
    why the place cannot be asked.
    """

    place: KeyPlace
    has_key: bool
    ending: str | None
    note: str | None
    problem: str | None
    remedy: str | None


class KeyLooked(TypedDict):
    """The key that this shell would use, and what each place has, in their order; ``daemon``: null where none runs."""

    source: KeyPlace | None
    ending: str | None
    places: list[KeyLook]
    daemon: KeyStatus | None


class DaemonRunning(TypedDict):
    """A daemon that runs; ``address`` and ``socket``: where it answers, if it says so."""

    running: Literal[True]
    pid: int
    address: str | None
    socket: str | None
    version: str
    started_at: Instant


class DaemonNotRunning(TypedDict):
    """No daemon runs; ``version``: that of this command."""

    running: Literal[False]
    pid: None
    address: None
    version: str


class ServiceInstalled(TypedDict):
    """The unit that starts the daemon, and the environment that it records."""

    name: str
    file: str
    environment: dict[str, str]


class ServiceRemoved(TypedDict):
    """The unit's file that was deleted; ``stopped``: whether the daemon ran."""

    removed: str | None
    stopped: bool


DaemonState = DaemonRunning | DaemonNotRunning


class DaemonStopped(TypedDict):
    """No daemon runs any more; ``stopped``: one ran."""

    stopped: bool
    running: Literal[False]


class DatabaseAdopted(TypedDict):
    """The database that was taken over; ``replaced``: the file that has the previous one now, null if there was none."""

    adopted: str
    replaced: str | None


class LogLine(TypedDict):
    """An event of the daemon; what it tells beside these fields depends on the event."""

    __pydantic_config__ = _Open  # type: ignore[misc]

    timestamp: Instant
    level: str
    component: str
    event: str
    message: str


class GuardInstalled(TypedDict):
    """The hook that the guard is in."""

    hook: str
    installed: Literal[True]


class GuardRemoved(TypedDict):
    """The hooks that the guard was in."""

    removed: list[str]


class EditsAllowed(TypedDict):
    """Until when edits pass that cannot be checked."""

    until: str


class GuardStatus(TypedDict):
    """Whether commits are checked; ``hooks_path``: core.hooksPath, if set; ``former_hook``: runs after the guard, if any does."""

    installed: bool
    hook: str
    hooks_path: str | None
    former_hook: str | None


class ManPage(TypedDict):
    """A manual page: its roff as ``text``, or the ``file`` that it was written to; the other one is null."""

    name: str
    file: str | None
    text: str | None


class PluginFolder(TypedDict):
    """The folder of the plugin."""

    path: str


class Schemas(TypedDict):
    """JSON Schemas: of what each command prints, by its whole name, and of an error."""

    commands: dict[str, dict[str, Any]]
    error: dict[str, Any]


CommandSchema = TypedDict("CommandSchema", {"$schema": str, "title": str})
"""The JSON Schema of what one command prints."""
CommandSchema.__pydantic_config__ = _Open  # type: ignore[attr-defined]
Schema = Schemas | CommandSchema
