"""The one tree of errors: raised in the domain, encoded once in the server, decoded once in the client, shown once in the CLI.

Every error carries a stable ``code``, a one-line ``message``, its likely ``cause`` and a ``remedy``. This module imports
nothing, so that the client and the command line can use it without cost.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CorralError(Exception):
    """Something a person or a program can act on.

    Args:
        message: What happened, one line.
        cause: Why it probably happened.
        remedy: What to do now.
        details: Machine-readable facts (JSON-serialisable).
    """

    code: str = "CORRAL-ERR-001"
    name: str = "internal_error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    default_cause: ClassVar[str] = "A fault in Corral itself."
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
        """The envelope that every surface sends: ``{"error": {code, name, message, cause, remedy, details}}``."""
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
    """The request itself is wrong; nothing was changed."""

    code = "CORRAL-ERR-002"
    name = "invalid_input"
    status = 422
    exit_code = 2
    default_cause = "A value is missing, malformed or out of range."
    default_remedy = "Correct the value and try again; `--help` shows what is accepted."


class NotFound(CorralError):
    """The thing that was named does not exist."""

    code = "CORRAL-ERR-003"
    name = "not_found"
    status = 404
    exit_code = 3
    default_cause = "The name is mistyped, or the thing is gone."
    default_remedy = "List what exists with the matching `list` command."


class Conflict(CorralError):
    """The request contradicts the present state; nothing was changed."""

    code = "CORRAL-ERR-004"
    name = "conflict"
    status = 409
    exit_code = 4
    default_cause = "Somebody else was first, or the state has moved on."
    default_remedy = "Look at the present state and decide again."


class IdempotencyKeyConflict(Conflict):
    """The key of a request was used for another one."""

    name = "idempotency_key_conflict"
    default_cause = "One key stands for one message, or one task."
    default_remedy = "Use a new key for what is new."


class LimitReached(Conflict):
    """One caller, or all together, would have more of something than Corral keeps; nothing was changed."""

    name = "limit_reached"
    status = 429
    default_cause = "The number is bounded, so that one caller cannot slow down all others."
    default_remedy = "Give up what is not needed any more, then try again."


class PathReplaced(Conflict):
    """Something else stands where Corral put a folder of its own; it was not touched."""

    name = "path_replaced"
    default_cause = "Corral changes nothing that it cannot prove to be its own."
    default_remedy = "Move what stands there away; Corral goes on by itself."


class FolderLinked(PathReplaced):
    """A symbolic link stands in the place of one of Corral's own folders; nothing was written through it."""

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
    default_remedy = "Go into the repository, or run `corral init` there."


class DubiousOwnership(NotAProject):
    """Another user owns the repository, or files of Corral's in it: they could have commands run as this user."""

    name = "dubious_ownership"
    default_cause = "Whoever owns it could have commands run as you."
    default_remedy = "Work in a clone of your own."


class ConfigInvalid(CorralError):
    """The merged configuration does not fit the schema; ``details['errors']`` names every field."""

    code = "CORRAL-ERR-007"
    name = "config_invalid"
    status = 422
    exit_code = 2
    default_cause = "A configuration file or CORRAL_ variable holds a value the schema refuses."
    default_remedy = "Correct the fields that are named."


class NotTrusted(ConfigInvalid):
    """Commands that files of the project name were not approved by the user on this machine; nothing of them ran."""

    name = "not_trusted"
    status = 403
    default_cause = "They came with the repository, or have changed since they were approved."
    default_remedy = "Look at them, and say yes to them or not: `corral trust`."


class DatabaseUnavailable(CorralError):
    """The database cannot be opened, read or written; nothing was acknowledged."""

    code = "CORRAL-ERR-008"
    name = "database_unavailable"
    status = 503
    exit_code = 1
    default_cause = "The disk is full, the folder is read-only, or the file is damaged."
    default_remedy = "Free space or repair the permissions, then try again; nothing was lost."


class DatabaseDamaged(DatabaseUnavailable):
    """The database file is not as Corral wrote it; nothing is read from it or written to it any more."""

    name = "database_damaged"


class GitFailed(CorralError):
    """Git refused or failed for a reason that is not a merge conflict; ``details`` has argv, rc and stderr."""

    code = "CORRAL-ERR-009"
    name = "git_failed"
    status = 500
    exit_code = 1
    default_cause = "Git reported an error."
    default_remedy = "Read git's message; `corral doctor` checks the repository."


class SetupFailed(GitFailed):
    """A setup command of a new worktree failed, or was ended."""

    name = "setup_failed"


class LockHeld(Conflict):
    """A lock that was asked for is held by somebody else; ``details['conflicts']`` names every holder."""

    code = "CORRAL-ERR-010"
    name = "lock_held"
    default_cause = "Another session works on that path."
    default_remedy = "Wait until it is released, take other work, or ask the holder."


class NotPermitted(CorralError):
    """The caller may not do this."""

    code = "CORRAL-ERR-011"
    name = "operation_not_permitted"
    status = 403
    exit_code = 1
    default_cause = "A policy forbids it."
    default_remedy = "Use the operation that the policy allows."


class OwnDaemon(NotPermitted):
    """Work of a daemon would stop the daemon, and itself with it."""

    name = "own_daemon"
    default_cause = (
        "Stopping the daemon ends all work, also the one that asks for it, which would then be started again."
    )
    default_remedy = (
        "Finish this work first. A person stops the daemon, in a shell that no task or verification has started."
    )


class LeaseLost(Conflict):
    """A worker spoke with an old fencing token: its task was given to somebody else."""

    code = "CORRAL-ERR-012"
    name = "lease_lost"
    default_cause = "The lease expired, or the task was taken over, while the worker was silent."
    default_remedy = "Stop this work; the present owner is named in the details."


class RunnerUnavailable(CorralError):
    """The program a runner needs is not installed."""

    code = "CORRAL-ERR-013"
    name = "runner_unavailable"
    status = 400
    exit_code = 1
    default_cause = "The `claude` command is not on the PATH."
    default_remedy = "Install Claude Code, or submit the task with --command."


class OutOfResources(RunnerUnavailable):
    """The machine lacks what a new process needs: memory, process slots, open files, disk space."""

    name = "out_of_resources"
    status = 503
    default_cause = (
        "The machine, or a limit on this user, has no more processes, memory, open files or disk space to give."
    )
    default_remedy = "End what uses them up, or raise the limit; Corral tries again by itself."


class WorkAtRisk(Conflict):
    """An operation was refused because it would lose work that is neither landed nor salvaged."""

    code = "CORRAL-ERR-014"
    name = "work_at_risk"
    default_cause = "There is work that exists nowhere else."
    default_remedy = "Land it, or salvage it with `corral worktree recover`."


class Unsupported(CorralError):
    """The repository is of a kind that this operation cannot handle."""

    code = "CORRAL-ERR-015"
    name = "unsupported"
    status = 400
    exit_code = 1
    default_cause = "The repository lacks something the operation needs."
    default_remedy = "See the message."


_ALL: list[type[CorralError]] = [
    CorralError, InvalidInput, NotFound, Conflict, DaemonUnreachable, NotAProject, ConfigInvalid, DatabaseUnavailable,
    GitFailed, LockHeld, NotPermitted, LeaseLost, RunnerUnavailable, WorkAtRisk, Unsupported,
]  # fmt: skip
BY_CODE: dict[str, type[CorralError]] = {cls.code: cls for cls in _ALL}


def from_wire(envelope: dict[str, Any]) -> CorralError:
    """Decode what :meth:`CorralError.to_wire` sent: as the class of its code, under the name that it had.

    A code that is unknown here becomes a plain :class:`CorralError`, and is shown as it came.
    """
    error = envelope.get("error") or {}
    cls = BY_CODE.get(str(error.get("code")), CorralError)
    decoded = cls(
        str(error.get("message") or "The daemon reported an error."),
        cause=str(error.get("cause") or ""),
        remedy=str(error.get("remedy") or ""),
        details=error.get("details") or {},
    )
    # Many errors that differ only in their name share a code; the class of each is known to the one who raised it.
    decoded.code = str(error.get("code") or cls.code)
    decoded.name = str(error.get("name") or cls.name)
    return decoded
