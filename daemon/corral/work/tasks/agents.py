"""The agent and the runner for a task: the agent it names, or one of the team that is capable of what it requires.

It is resolved when a task is submitted, to refuse a task that no agent could do, and again when an attempt starts: the team and
the definitions of that moment count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from corral.config.agents import AgentDefinition
from corral.config.roster import Agent, Check, Roster
from corral.core.errors import ConfigInvalid, CorralError, InvalidInput, RunnerUnavailable
from corral.core.states import RunnerName
from corral.runners.protocol import Runner
from corral.store.rows.tasks import TaskDoer
from corral.work.agents.choosing import Choosing
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.wire import TaskSubmission


@dataclass(frozen=True)
class ResolvedAgent:
    """The agent and the runner for a task.

    Attributes:
        runner: The runner that executes it; None: a session claims it.
        agent: The agent that gets it; None: as the settings say.
        program: The program that the runner ``command`` starts instead of the task's own command.
    """

    runner: RunnerName | None
    agent: Agent | None = None
    program: tuple[str, ...] = ()

    @property
    def definition(self) -> AgentDefinition | None:
        """The instructions, tools and limits of a worker with a prompt; a program gets its instructions alone."""
        return self.agent.definition if self.agent and self.runner is not RunnerName.COMMAND else None

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits that its definition sets for an attempt."""
        own = self.agent.definition if self.agent else None
        return own.own_limits if own else {}

    @property
    def program_env(self) -> Mapping[str, str]:
        """Variables for that program."""
        return self.agent.program_env if self.agent and self.program else {}

    @property
    def model(self) -> str | None:
        """The model that the agent asks Claude Code, or the Messages API, for."""
        if self.agent is None:
            return None
        is_own = self.runner is RunnerName.ANTHROPIC and self.agent.runner == self.runner
        return self.agent.model if is_own else self.agent.claude_model

    @property
    def instructions(self) -> str | None:
        """Its instructions beside its prompt: a definition's text first, where the client does not take that for itself."""
        if self.agent is None:
            return None
        own = self.agent.definition if self.runner is RunnerName.COMMAND else None
        return "\n\n".join(text for text in (own and own.instructions, self.agent.instructions) if text) or None


def checked(runners: Mapping[str, Runner]) -> Check:
    """Make the check that one of these runners can start a program."""

    def check(name: RunnerName, program: Sequence[str]) -> None:
        runner = runners.get(str(name))
        if runner is None:
            raise RunnerUnavailable(
                f"There is no runner {str(name)!r}.", cause="", remedy="Use command, claude or anthropic."
            )
        runner.available(program)

    return check


def resolve_agent(
    task: TaskDoer, roster: Roster, check: Check, at_work: Mapping[str, int] | None = None
) -> ResolvedAgent:
    """Choose the agent and the runner of a task, and check that the runner can start here.

    A task that names an agent is that agent's. One that requires capabilities, and has a prompt, goes to a member of the team
    that declares a runner, has them all, and can start; else to such an agent definition of the project, else of the plugin.
    Among equals it goes to the one with the fewest tasks at work, then to the first. Where no member declares a runner, and one
    is capable, the settings say who does it.

    Args:
        task: Its columns that choose the agent.
        at_work: How many tasks each agent has, by its name.

    Raises:
        NotFound: There is no such agent.
        InvalidInput: The agent, or everybody here, lacks what is required; or it has nothing to execute.
        ConfigInvalid: The agent's definition is not valid.
        RunnerUnavailable: Its runner is not installed.
    """
    required = (task["agent_requirements"] or {}).get("capabilities", [])
    if task["agent"] is not None:
        return _named(task, roster.find(task["agent"]), required, check)
    if task["runner"] is None:
        return ResolvedAgent(None)
    runner = RunnerName(task["runner"])
    if required and task["command"] is None:
        capable = _capable(roster, required, runner, check, at_work or {})
        if capable is not None:
            return capable
    if (lacking := nobody_capable(task, roster)) is not None:
        raise InvalidInput(
            lacking, remedy="`corral agent list` shows who is capable of what; require less, or name who shall do it."
        )
    check(runner, ())
    return ResolvedAgent(runner)


def settle(
    submissions: Sequence[TaskSubmission],
    roster: Roster,
    check: Check,
    known_errors: Sequence[dict[str, Any]] = (),
    choosing: Choosing | None = None,
) -> list[TaskSubmission]:
    """Choose the runner of each task that names an agent, and refuse tasks that no agent here could do.

    Args:
        known_errors: Errors of earlier checks, reported together with those of this one.
        choosing: The versions that tasks work by instead of what the files say.

    Returns:
        The submissions; one that names an agent has a ``runner`` now.

    Raises:
        InvalidInput: ``details['errors']`` names each task whose agent is not there, not valid or not capable.
        RunnerUnavailable: The runner of one of them is not installed.
    """
    check = cache(check)  # once for all tasks of a batch
    settled: list[TaskSubmission] = []
    errors, chosen = [*known_errors], choosing or Choosing()
    for index, item in enumerate(submissions):
        required = item.agent_requirements.model_dump() if item.agent_requirements is not None else None
        doer: TaskDoer = {
            "task_id": "", "agent": item.agent, "agent_version": item.agent_version, "agent_requirements": required,
            "runner": item.runner, "command": item.command,
        }  # fmt: skip
        try:
            resolved = resolve_agent(doer, chosen.roster(roster, doer), check)
        except RunnerUnavailable:
            raise
        except CorralError as error:
            message = f"{error.message} {error.cause}" if isinstance(error, ConfigInvalid) else error.message
            field = "agent" if item.agent is not None else "agent_requirements"
            errors.append({"index": index, "field": field, "message": message})
            continue
        named = item.agent is not None and resolved.agent is not None
        settled.append(item.model_copy(update={"runner": resolved.runner}) if named else item)
    if errors:
        task_shapes.refuse(errors, len(submissions))
    return settled


def _named(task: TaskDoer, agent: Agent, required: Sequence[str], check: Check) -> ResolvedAgent:
    if lacking := agent.lacks(required):
        able = ", ".join(agent.capabilities) or "nothing in particular"
        raise InvalidInput(f"The agent {agent.name} is not capable of {', '.join(lacking)}, but of {able}.")
    runner = RunnerName(task["runner"] or agent.runner_name)
    program = agent.program if runner is RunnerName.COMMAND and task["command"] is None else ()
    if runner is RunnerName.COMMAND and task["command"] is None and not program:
        raise InvalidInput(f"The agent {agent.name} has no command of its own: the task needs one.")
    check(runner, program)
    return ResolvedAgent(runner, agent, program)


def nobody_capable(task: TaskDoer, roster: Roster) -> str | None:
    """Why no worker here may do a task: nobody has what it requires. None: somebody has, or sessions claim it.

    A task with a prompt is for those that a worker can be started for; where no member of the team declares a runner, and for
    a task with a command, it is enough that anybody has it.
    """
    required = (task["agent_requirements"] or {}).get("capabilities", [])
    if not required or task["agent"] is not None or task["runner"] is None:
        return None
    if next(roster.capable(required), None) is not None:
        return None
    known = list(roster.known())
    is_anybody_enough = task["command"] is not None or not roster.has_runners
    if is_anybody_enough and not all(agent.lacks(required) for agent in known):
        return None
    able = ", ".join(f"{agent.name} ({', '.join(agent.capabilities)})" for agent in known if agent.capabilities)
    return f"Nobody here is capable of {', '.join(required)}. There are: {able or 'no capabilities at all'}."


def _capable(
    roster: Roster, required: Sequence[str], preferred: RunnerName, check: Check, at_work: Mapping[str, int]
) -> ResolvedAgent | None:
    """The agent that has the capabilities, can start, and among its equals has the least to do; None: there is none."""
    unavailable: RunnerUnavailable | None = None
    equals: list[ResolvedAgent] = []
    for agent in roster.capable(required):
        if equals and equals[0].agent is not None and equals[0].agent.source != agent.source:
            break
        # The runner of a task with a prompt is claude where nobody chose another.
        runner = preferred if preferred is RunnerName.ANTHROPIC and not agent.program else agent.runner_name
        try:
            check(runner, agent.program)
        except RunnerUnavailable as error:
            unavailable = unavailable or error
            continue
        equals.append(ResolvedAgent(runner, agent, agent.program))
    if unavailable is not None and not equals:
        raise unavailable
    return min(
        equals, key=lambda candidate: at_work.get(candidate.agent.name if candidate.agent else "", 0), default=None
    )
