"""All errors: raised in the domain, encoded in the server, decoded in the client, shown in the CLI.

Every error carries a stable ``code``, a one-line ``message``, its likely ``cause`` and a ``remedy``. This module
imports nothing, so that the client and the command line can use it without cost.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CorralError(Exception):
    """Something failed in Corral; every other error is a kind of it, and tells a person or a program what to do.

    Args:
        message: What happened, one line.
        cause: The probable cause.
        remedy: What to do now.
        details: Machine-readable facts (JSON-serialisable).
    """

    code: str = "CORRAL-ERR-001"
    name: str = "internal_error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    default_cause: ClassVar[str] = "An internal error in Corral."
    default_remedy: ClassVar[str] = "Run `corral daemon logs`, and `corral doctor`."

    def __init__(
        self, message: str, *, cause: str = "", remedy: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause or self.default_cause
        self.remedy = remedy or self.default_remedy
        self.details = details or {}

    def to_wire(self) -> dict[str, Any]:
        """The JSON of an error on every surface: ``{"error": {code, name, message, cause, remedy, details}}``."""
        return {
            "error": {
                "code": self.code,
                "name": self.name,
                "message": self.message,
                "cause": self.cause,
                "remedy": self.remedy,
                "details": self.details,
            }
        }


class InvalidInput(CorralError):
    """The request itself is invalid; nothing was changed."""

    code = "CORRAL-ERR-002"
    name = "invalid_input"
    status = 422
    exit_code = 2
    default_cause = "A value is missing, malformed or out of range."
    default_remedy = "Correct the value and try again; `--help` shows what is accepted."


NOT_IN_THIS_VERSION = "This version of Corral has nothing of that name."
"""The cause where names are Corral's own: commands, settings, addresses."""


class NotFound(CorralError):
    """The named object does not exist. Where no name was given by the caller, the default cause is not true: say another."""

    code = "CORRAL-ERR-003"
    name = "not_found"
    status = 404
    exit_code = 3
    default_cause = "The name is mistyped, or the object was deleted."
    default_remedy = "List what exists with the matching `list` command."


def cause_of_name(name: str) -> str:
    """The cause why nothing goes by a name, where the name itself shows it: it is empty. Else the default cause is true."""
    return "" if name.strip() else "The name is empty."


class TargetGone(NotFound):
    """The branch that work is to land on is gone, for example renamed; what is to land on it waits until it is back."""

    name = "target_gone"


RACED = "It has changed since it was looked at, or another caller was faster."
"""The cause of a conflict where a race is the only way to it."""


class Conflict(CorralError):
    """The request contradicts the current state; nothing was changed."""

    code = "CORRAL-ERR-004"
    name = "conflict"
    status = 409
    exit_code = 4
    default_cause = "The present state does not allow it."
    default_remedy = "Look at the current state and decide again."


class IdempotencyKeyConflict(Conflict):
    """An idempotency key was used before, for a different request."""

    name = "idempotency_key_conflict"
    default_cause = "One idempotency key identifies one message, or one task."
    default_remedy = "Use a new key for a new request."


class LimitReached(Conflict):
    """A limit per caller, or for all callers together, is reached; nothing was changed."""

    name = "limit_reached"
    status = 429
    default_cause = "The number is limited, so that one caller cannot slow down all others."
    default_remedy = "Release or delete what you no longer need, then try again."


class PathReplaced(Conflict):
    """A folder of Corral's was replaced by something else, which was not touched."""

    name = "path_replaced"
    default_cause = "Corral changes nothing that it cannot prove to be its own."
    default_remedy = "Move it away; Corral then continues by itself."


class FolderLinked(PathReplaced):
    """A symbolic link is in place of one of Corral's own folders; nothing was written through it."""

    name = "folder_linked"


class DaemonUnreachable(CorralError):
    """No daemon answers, and none could be started."""

    code = "CORRAL-ERR-005"
    name = "daemon_unreachable"
    status = 503
    exit_code = 5
    default_cause = "The daemon is not running, or could not start."
    default_remedy = "Run `corral daemon start` and read `corral daemon logs`."


class NotAProject(CorralError):
    """The folder is not inside a git repository, or the repository is not coordinated."""

    code = "CORRAL-ERR-006"
    name = "not_a_project"
    status = 400
    exit_code = 2
    default_cause = "Corral works on a git repository that `corral init` has prepared."
    default_remedy = "Change to the repository, or run `corral init` there."


class DubiousOwnership(NotAProject):
    """Another user owns the repository, or Corral's files in it, and could have commands run as this user."""

    name = "dubious_ownership"
    default_cause = "The owner could have commands run as you."
    default_remedy = "Work in a clone of your own."


class ConfigInvalid(CorralError):
    """The merged configuration does not fit the schema; ``details['errors']`` names every field."""

    code = "CORRAL-ERR-007"
    name = "config_invalid"
    status = 422
    exit_code = 2
    default_cause = "A configuration file or CORRAL_ variable has an invalid value."
    default_remedy = "Correct the named fields."


class NotTrusted(ConfigInvalid):
    """The user has not approved commands in the project's files on this machine; none of them ran."""

    name = "not_trusted"
    status = 403
    default_cause = "They came with the repository, or were changed after approval."
    default_remedy = "Look at them and decide: `corral trust`."


class DatabaseUnavailable(CorralError):
    """The database cannot be opened, read or written; nothing was acknowledged."""

    code = "CORRAL-ERR-008"
    name = "database_unavailable"
    status = 503
    default_cause = "The disk is full, the folder is read-only, or the file is damaged."
    default_remedy = "Free space or repair the permissions, then try again; no data was lost."


class DatabaseDamaged(DatabaseUnavailable):
    """The database file is damaged; Corral no longer reads or writes it."""

    name = "database_damaged"


class GitFailed(CorralError):
    """Git failed, not because of a merge conflict; ``details`` has argv, rc and stderr."""

    code = "CORRAL-ERR-009"
    name = "git_failed"
    default_cause = "Git reported an error."
    default_remedy = "Read git's message; `corral doctor` checks the repository."


class SetupFailed(GitFailed):
    """A setup command of a new worktree failed, or was killed."""

    name = "setup_failed"


class LockHeld(Conflict):
    """Another session holds a requested lock; ``details['conflicts']`` names every holder."""

    code = "CORRAL-ERR-010"
    name = "lock_held"
    default_cause = "Another session works on that path."
    default_remedy = "Wait until it is released, do other work, or ask the holder."


class NotPermitted(CorralError):
    """The caller may not do this."""

    code = "CORRAL-ERR-011"
    name = "operation_not_permitted"
    status = 403
    default_cause = "A policy forbids it."
    default_remedy = "Use an operation that the policy allows."


class Unidentified(NotPermitted):
    """A call that somebody has to make, and that does not show who makes it."""

    name = "unidentified"
    default_cause = "Over HTTP a caller is known by the token that it got from `initialize`, or when it registered."
    default_remedy = (
        "Send the `Mcp-Session-Id` of the answer to `initialize` with each request, as MCP clients do; or call register_agent "
        "or register_session, and pass the `registration_token` that it answers to each call."
    )


class OwnDaemon(NotPermitted):
    """Work asked its own daemon for what would end or disturb that work too."""

    name = "own_daemon"
    default_cause = (
        "Stopping the daemon ends all work, including the task that asks for it, which would then be started again."
    )
    default_remedy = "Finish this work first. To stop the daemon, a person runs the command in a shell of their own."


class LeaseLost(Conflict):
    """A worker used an old fencing token: its task now belongs to another session."""

    code = "CORRAL-ERR-012"
    name = "lease_lost"
    default_cause = "The worker's lease expired, or another session took the task over."
    default_remedy = "Stop this work; the details name the present owner."


class RunnerUnavailable(CorralError):
    """The program that a runner needs is not installed."""

    code = "CORRAL-ERR-013"
    name = "runner_unavailable"
    status = 400
    default_cause = "The `claude` command is not on the PATH."
    default_remedy = "Install Claude Code, or submit the task with --command."


class ApiKeyUnavailable(RunnerUnavailable):
    """A place that has, or may have, the key for the Messages API cannot be used; no message shows a key."""

    name = "api_key_unavailable"
    status = 503
    default_cause = "The keychain is locked or does not answer, or a stored key is damaged."
    default_remedy = "Look where the key comes from: `corral config key-status`."


class OutOfResources(RunnerUnavailable):
    """The machine lacks resources for a new process: memory, process slots, open files, disk space."""

    name = "out_of_resources"
    status = 503
    default_cause = "The machine, or a limit on this user, allows no more processes, memory, open files or disk space."
    default_remedy = "End other processes, or raise the limit; Corral tries again by itself."


class WorkAtRisk(Conflict):
    """An operation would lose work that is neither landed nor salvaged."""

    code = "CORRAL-ERR-014"
    name = "work_at_risk"
    default_cause = "This work exists nowhere else."
    default_remedy = "Land it, or salvage it with `corral worktree recover`."


class Unsupported(CorralError):
    """The repository does not support this operation."""

    code = "CORRAL-ERR-015"
    name = "unsupported"
    status = 400
    default_cause = "The repository lacks something that the operation needs."
    default_remedy = "See the message."


_ALL: list[type[CorralError]] = [
    CorralError, InvalidInput, NotFound, Conflict, DaemonUnreachable, NotAProject, ConfigInvalid, DatabaseUnavailable,
    GitFailed, LockHeld, NotPermitted, LeaseLost, RunnerUnavailable, WorkAtRisk, Unsupported,
]  # fmt: skip
BY_CODE: dict[str, type[CorralError]] = {cls.code: cls for cls in _ALL}


def from_wire(envelope: dict[str, Any]) -> CorralError:
    """Decode the output of :meth:`CorralError.to_wire` into the class of its code, with its original name.

    An unknown code becomes a plain :class:`CorralError`, unchanged.
    """
    error = envelope.get("error") or {}
    cls = BY_CODE.get(str(error.get("code")), CorralError)
    decoded = cls(
        str(error.get("message") or "The daemon reported an error."),
        cause=str(error.get("cause") or ""),
        remedy=str(error.get("remedy") or ""),
        details=error.get("details") or {},
    )
    # Errors that differ only in their name share a code; only the raising side knows the class of each.
    decoded.code = str(error.get("code") or cls.code)
    decoded.name = str(error.get("name") or cls.name)
    return decoded
