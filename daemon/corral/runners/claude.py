"""The runner ``claude``: headless Claude Code in the task's worktree.

Its prompt goes through a pipe that stays open, so that messages can follow; the pipe is closed when its turn ends, and
the client exits. If the daemon dies, the keeper holds the pipe open, and the next daemon goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from corral.core.errors import InvalidInput
from corral.runners.blame import CONVERSATION_LOST
from corral.runners.command import ended_by_signal, environment_for, find_program
from corral.runners.keeping import Kept, keep
from corral.runners.protocol import Assignment, Finished, Running, failure
from corral.runners.stream import Event, Transcript, one_line, user_message
from corral.runners.worker import Worker

_PERMISSIONS = {"permissions": {"allow": ["Bash(*)", "mcp__plugin_corral_corral", "Skill"]}}
_PERHAPS_LATER = frozenset({408, 409, 429})
_NOT_ALLOWED = frozenset({401, 402, 403})
_AGENT = "local_agent"


class ClaudeRunner:
    """Runs ``claude -p`` with stream-json on both sides.

    It edits inside its worktree and runs any command there; the client itself refuses edits elsewhere.

    Args:
        environ: The daemon's environment; a worker's is derived from it.
        command: The client: a name on the PATH, or a path.
        stop_grace_s: Seconds from SIGTERM to SIGKILL.
    """

    name = "claude"

    def __init__(self, environ: Mapping[str, str], *, command: str = "claude", stop_grace_s: float = 5.0) -> None:
        self._environ = environ
        self._command = command
        self._stop_grace_s = stop_grace_s

    def available(self, program: Sequence[str] = ()) -> None:
        """Check that the client is installed.

        Raises:
            RunnerUnavailable: It is not on the PATH.
        """
        self._client(self._environ.get("PATH"))

    def start(self, assignment: Assignment, now: datetime) -> Running:
        """Start the client and send the prompt.

        Raises:
            InvalidInput: There is no prompt.
            RunnerUnavailable: The client is missing or could not be started.
        """
        if not assignment.prompt:
            raise InvalidInput("The task has no prompt.", remedy="Submit it with --prompt.")
        env = environment_for(assignment, self._environ, is_claude=True)
        argv = [self._client(env.get("PATH")), *arguments(assignment)]
        kept = keep(assignment, argv, env, grace_s=self._stop_grace_s, stdin=user_message(assignment.prompt))
        return self.follow(assignment, kept, now)

    def follow(self, assignment: Assignment, kept: Kept, now: datetime) -> Running:
        """Follow a worker that runs, or has ended."""
        return ClaudeWorker(assignment, ClaudeOutput(assignment), kept, now=now, grace_s=self._stop_grace_s)

    def _client(self, path: str | None) -> str:
        remedy = "Install Claude Code, set runners.claude.command to its path, or submit the task with --command."
        return find_program(self._command, path, what="Claude Code client", remedy=remedy)


def arguments(assignment: Assignment) -> list[str]:
    """The client's arguments for an assignment, without the prompt."""
    limits, definition = assignment.limits, assignment.definition
    optional = {
        # Passed by value, not by name: an uncommitted file is in no worktree.
        "--agents": json.dumps({assignment.agent: definition}, ensure_ascii=False) if definition is not None else None,
        "--agent": assignment.agent if definition is not None else None,
        "--plugin-dir": assignment.plugin_dir,
        "--model": assignment.model,
        "--max-turns": limits.max_turns,
        "--max-budget-usd": limits.max_cost_usd,
        "--resume": assignment.resumes.session_id if assignment.resumes else None,
    }
    # A copy: an attempt that is cut short leaves the conversation as it was, for the next one.
    copied = ["--fork-session"] if assignment.resumes else []
    return [
        *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--permission-mode", "acceptEdits", "--settings", json.dumps(_PERMISSIONS)),
        *("--session-id", assignment.session_id, "--append-system-prompt", assignment.briefing),
        *copied,
        *(f"{flag}={value}" for flag, value in optional.items() if value is not None),
    ]


class ClaudeWorker(Worker):
    """A worker that accepts messages until its turn has ended."""

    _answers_for_group = False

    @property
    def listens(self) -> bool:
        """Whether its turn is still open."""
        if self._finished is not None or self._ending is not None or self._output.settled:
            return False
        return self._kept.takes_input

    def tell(self, text: str) -> bool:
        """Send a user message; the model gets it with its next request."""
        return self.listens and self._kept.send(user_message(text))


class ClaudeOutput(Transcript):
    """The result in the client's events."""

    def __init__(self, assignment: Assignment) -> None:
        resumed = assignment.resumes
        super().__init__(root=str(assignment.worktree), before=resumed.usage if resumed else None)
        self._limits = assignment.limits
        self._is_resumed = resumed is not None

    @property
    def settled(self) -> bool:
        """Whether the turn has ended and no background agent is running."""
        agents = any(task.get("task_type") == _AGENT for task in self.background)
        return self.result is not None and not agents

    @property
    def waits(self) -> bool:
        """Whether a background command is running, whose end would start another turn."""
        return bool(self.background)

    def verdict(self, exit_code: int) -> Finished:
        """The result of the last turn, by ``is_error``: ``subtype`` says success even after an API error."""
        verdict = self._verdict(exit_code)
        if verdict.success or not self._is_resumed or self.has_answered or not _is_refusal(verdict):
            return verdict
        message = f"Its conversation could not be resumed: {verdict.error_message}"
        return failure(CONVERSATION_LOST, message, exit_code=exit_code, result=verdict.result)

    def _verdict(self, exit_code: int) -> Finished:
        result = self.result
        if result is None or (exit_code != 0 and not self.settled):
            return self._no_result(exit_code)
        outcome = self._result(result)
        if not result.get("is_error") and not str(result.get("subtype")).startswith("error"):
            return Finished(True, exit_code, None, None, False, outcome)
        return self._failure(result, exit_code, outcome)

    def _no_result(self, exit_code: int) -> Finished:
        outcome = {"warnings": self.warnings}
        if ended := ended_by_signal(exit_code):
            code, name = ended
            return failure(code, f"The client was ended by {name}.", exit_code=exit_code, result=outcome)
        output = " · ".join(self.strays) or "no output"
        message = f"The client exited with {exit_code} and no result: {output}"
        return failure("command_failed", message, exit_code=exit_code, result=outcome)

    def _failure(self, result: Event, exit_code: int, outcome: dict[str, object]) -> Finished:
        subtype, status = result.get("subtype"), result.get("api_error_status")
        errors = [str(error) for error in result.get("errors") or []]
        text = one_line(self.final_text() or " · ".join(errors) or str(subtype))
        if subtype == "error_max_turns":
            message = f"The worker reached its limit of {self._limits.max_turns} turns."
            return failure("max_turns", message, exit_code=exit_code, result=outcome)
        if subtype == "error_max_budget_usd":
            message = f"The worker reached its budget of {self._limits.max_cost_usd:g} USD."
            return failure("budget_exceeded", message, exit_code=exit_code, result=outcome)
        if subtype != "success":
            return failure("command_failed", text, exit_code=exit_code, result=outcome)
        again = status is None or int(status) >= 500 or int(status) in _PERHAPS_LATER
        return Finished(False, exit_code, "api_error", text, again, outcome)

    def _result(self, result: Event) -> dict[str, object]:
        denials = [str(denial.get("tool_name")) for denial in result.get("permission_denials") or []]
        return {
            "text": self.final_text(),
            "model": self.model,
            "stop_reason": result.get("stop_reason"),
            "terminal_reason": result.get("terminal_reason"),
            "api_error_status": result.get("api_error_status"),
            "denied_tools": denials,
            "warnings": self.warnings,
        }


def _is_refusal(verdict: Finished) -> bool:
    """Whether the client or the API would refuse the same conversation again, and perhaps not another one."""
    if verdict.error_code == "command_failed":
        return True
    status = verdict.result.get("api_error_status")
    is_own = isinstance(status, int) and 400 <= status < 500 and status not in _NOT_ALLOWED | _PERHAPS_LATER
    return verdict.error_code == "api_error" and is_own
