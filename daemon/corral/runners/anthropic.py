"""The runner ``anthropic``: the Messages API through its official SDK, in the task's worktree.

Its worker is a process of its own (:mod:`corral.runners.messages`). It gets its assignment and the key through its
standard input: a key in the environment could be read by every command that it runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec

from corral.config.paths import import_folders
from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.runners.claude import ClaudeOutput
from corral.runners.command import environment_for
from corral.runners.keeping import Kept, keep
from corral.runners.messages.tools import allowed
from corral.runners.messages.usage import LATEST
from corral.runners.protocol import ApiAccess, Assignment, Finished, Running, failure
from corral.runners.stream import Event, one_line
from corral.runners.worker import Worker

BASE_URL = "ANTHROPIC_BASE_URL"

# Isolated: neither the worktree nor a variable may put another module in place of the worker's own.
_START = "import sys; sys.path += sys.argv[1:]; from corral.runners.messages.loop import main; main()"


class AnthropicRunner:
    """Runs a conversation with the Messages API.

    Args:
        environ: The daemon's environment; a worker's is derived from it.
        find_key: Finds the key; None if there is none. May raise ApiKeyUnavailable.
        max_tokens_per_answer: The most that the model may write in one answer.
        silence_s: Seconds without a byte of the API after which a request counts as failed.
        stop_grace_s: Seconds from SIGTERM to SIGKILL.
    """

    name = "anthropic"

    def __init__(
        self,
        environ: Mapping[str, str],
        find_key: Callable[[], str | None],
        *,
        max_tokens_per_answer: int = 16_000,
        silence_s: float = 120.0,
        stop_grace_s: float = 5.0,
    ) -> None:
        self._environ = environ
        self._find_key = find_key
        self._max_tokens_per_answer = max_tokens_per_answer
        self._silence_s = silence_s
        self._stop_grace_s = stop_grace_s

    def available(self, program: Sequence[str] = ()) -> None:
        """Check that there is a key.

        Raises:
            RunnerUnavailable: There is none, or the SDK is not installed.
            ApiKeyUnavailable: The place that has it cannot be used.
        """
        self._key()
        if find_spec("anthropic") is None:
            raise RunnerUnavailable(
                "The Python package anthropic is not installed.",
                cause="It is missing from the environment that Corral is installed in.",
                remedy="Install Corral again.",
            )

    def start(self, assignment: Assignment, now: datetime) -> Running:
        """Start the worker and send it its assignment.

        Raises:
            InvalidInput: There is no prompt.
            RunnerUnavailable: There is no key, or the worker could not be started.
            ApiKeyUnavailable: See :meth:`available`.
        """
        if not assignment.prompt:
            raise InvalidInput("The task has no prompt.", remedy="Submit it with --prompt.")
        self.available()
        env = environment_for(assignment, self._environ)
        argv = [sys.executable, "-I", "-c", _START, *import_folders("anthropic")]
        stdin = json.dumps(self._order(assignment)).encode()
        kept = keep(assignment, argv, env, grace_s=self._stop_grace_s, stdin=stdin, closes_stdin=True)
        return self.follow(assignment, kept, now)

    def follow(self, assignment: Assignment, kept: Kept, now: datetime) -> Running:
        """Follow a worker that runs, or has ended."""
        return Worker(assignment, MessagesOutput(assignment), kept, now=now, grace_s=self._stop_grace_s)

    def access(self) -> ApiAccess:
        """The key and the address of its requests to the API.

        Raises:
            RunnerUnavailable: There is no key, or the SDK is not installed.
            ApiKeyUnavailable: See :meth:`available`.
        """
        self.available()
        return ApiAccess(self._key(), self._environ.get(BASE_URL) or None, import_folders("anthropic"))

    def _key(self) -> str:
        key = self._find_key()
        if key is None:
            raise RunnerUnavailable(
                "The runner anthropic needs an API key, and there is none.",
                cause="ANTHROPIC_API_KEY is not set where the daemon was started, and no key is stored.",
                remedy="Store one: `corral config set-key`; or submit the task with --runner claude.",
            )
        return key

    def _order(self, assignment: Assignment) -> dict[str, object]:
        definition, limits, model = assignment.definition or {}, assignment.limits, str(assignment.model)
        system = (str(definition.get("prompt") or ""), assignment.briefing, f"Working directory: {assignment.worktree}")
        return {
            "prompt": assignment.prompt,
            "system": "\n\n".join(text for text in system if text),
            "model": LATEST.get(model, model),
            "tools": allowed(definition.get("tools"), definition.get("disallowedTools")),
            "worktree": str(assignment.worktree),
            "api_key": self._key(),
            "base_url": self._environ.get(BASE_URL) or None,
            "max_tokens_per_answer": self._max_tokens_per_answer,
            "silence_s": self._silence_s,
            "max_turns": limits.max_turns,
            "max_tokens": limits.max_tokens,
            "max_cost_usd": limits.max_cost_usd,
            "conversation": assignment.conversation and str(assignment.conversation),
            "resumes": assignment.resumes and str(assignment.resumes.file),
        }


class MessagesOutput(ClaudeOutput):
    """The result in the worker's events: those of Claude Code, with further error subtypes."""

    def _on_answer(self, event: Event) -> None:
        """Unlike Claude Code's, its events contain the cost so far: a stopped attempt has its cost too."""
        super()._on_answer(event)
        self.usage.cost_usd = float(event.get("total_cost_usd") or 0.0)

    def _failure(self, result: Event, exit_code: int, outcome: dict[str, object]) -> Finished:
        subtype, status = result.get("subtype"), result.get("api_error_status")
        text = one_line(self.final_text())
        if subtype == "error_max_tokens":
            message = f"The worker used more than {self._limits.max_tokens} tokens."
            return failure("token_limit", message, exit_code=exit_code, result=outcome)
        if subtype == "error_refusal":
            message = f"The model refused to go on: {text}" if text else "The model refused to go on."
            return Finished(False, exit_code, "api_error", message, False, outcome)
        if status in (401, 403):
            message = f"{text} Check where the key comes from: `corral config key-status`."
            return Finished(False, exit_code, "api_error", message, False, outcome)
        return super()._failure(result, exit_code, outcome)

    def _result(self, result: Event) -> dict[str, object]:
        own: dict[str, object] = {"usage": next(iter((result.get("modelUsage") or {}).values()), {})}
        if result.get("retry_at"):
            own["retry_at"] = str(result["retry_at"])
        return {**super()._result(result), **own, "warnings": [*self.warnings, *(result.get("warnings") or [])]}
