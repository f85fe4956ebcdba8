"""Who can be given a task by name: the members of the team, and every agent definition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from corral.config.agents import CLAUDE, MODEL, PLUGIN, AgentDefinition, Found, find_definitions
from corral.config.paths import Project
from corral.config.teams import TeamAgent, teams_file
from corral.errors import ConfigInvalid, NotFound, RunnerUnavailable
from corral.models.states import RunnerName

Check = Callable[[RunnerName, Sequence[str]], None]
"""Raises RunnerUnavailable if a runner, or the program of an agent that it would start, is not there."""

TEAM = "team"
OWN = "corral:"
"""What comes before the name of one of the plugin's own, as Claude Code calls it."""


@dataclass(frozen=True)
class Agent:
    """One who does tasks, with everything that starting it needs.

    Attributes:
        source: ``team``, ``project`` or ``plugin``.
        file: Where it is described.
        runner: ``claude``, ``command``, or what a definition calls its own.
        model: What its runner runs on; None leaves it to the settings.
        claude_model: The same, if it is Claude Code that it runs in.
        program: The arguments of its own command; empty if it has none.
        program_env: Variables for that command.
        instructions: What the team says that it is told.
        definition: Its definition, where it has one.
    """

    name: str
    description: str
    source: str
    file: Path
    capabilities: tuple[str, ...]
    runner: str
    model: str | None
    claude_model: str | None
    program: tuple[str, ...] = ()
    program_env: Mapping[str, str] = field(default_factory=dict)
    instructions: str | None = None
    definition: AgentDefinition | None = None

    @property
    def runner_name(self) -> RunnerName:
        """The runner that executes its tasks unless they say another."""
        return RunnerName.CLAUDE if self.runner == CLAUDE else RunnerName.COMMAND

    def shown(self) -> dict[str, Any]:
        """As it is listed (JSON-serialisable)."""
        return {
            "name": self.name,
            "description": self.description,
            "source": self.source,
            "file": str(self.file),
            "runner": self.runner,
            "model": self.model,
            "capabilities": list(self.capabilities),
            "command": list(self.program),
        }

    def lacks(self, capabilities: Collection[str]) -> list[str]:
        """Which of these it does not have; their case does not count."""
        mine = {capability.casefold() for capability in self.capabilities}
        return [capability for capability in capabilities if capability.casefold() not in mine]


class Roster:
    """Everybody, by name in any case. A member of the team goes before a definition, the project's before the plugin's.

    Args:
        project: Whose definitions they are; read when they are first needed.
        team: The members of the team.
    """

    def __init__(self, project: Project, team: Sequence[TeamAgent]) -> None:
        self._project = project
        self._team = team

    def find(self, name: str) -> Agent:
        """The agent of that name.

        Raises:
            NotFound: There is none; says which there are.
            ConfigInvalid: What describes it is not valid.
        """
        wanted = name.strip().casefold()
        for member in self._team:
            if member.name.casefold() == wanted:
                return self._member(member)
        found = self._defined(wanted)
        if found is None:
            raise NotFound(f"There is no agent {name[:80]!r}; there are: {', '.join(self.names())}.")
        return _defined_agent(found)

    def names(self) -> list[str]:
        """Every name that :meth:`find` knows, once."""
        first: dict[str, str] = {}
        for name in [member.name for member in self._team] + [found.name for found in self._found]:
            first.setdefault(name.casefold(), name)
        return list(first.values())

    def shown(self, name: str, check: Check) -> dict[str, Any]:
        """An agent as it is listed; its ``problem`` is why it could do nothing here, None if it could.

        Raises:
            NotFound: There is none of that name.
        """
        agent, problem = None, None
        try:
            agent = self.find(name)
            check(agent.runner_name, agent.program)
        except ConfigInvalid as error:
            problem = f"{error.message} {error.cause}"
        except RunnerUnavailable as error:
            problem = error.message
        return {"name": name, **(agent.shown() if agent else {}), "problem": problem}

    def shown_member(self, member: TeamAgent, check: Check) -> dict[str, Any]:
        """A member of the team as it is listed; who declares no runner may be a person's session, and has no problem."""
        shown = {**member.model_dump(), **self.shown(member.name, check)}
        return shown if member.runner is not None else {**shown, "problem": None}

    def with_runner(self) -> Iterator[Agent]:
        """The members of the team that say what executes their tasks, in the order of the file; none that could not be one."""
        for member in self._team:
            if member.runner is not None:
                try:
                    yield self._member(member)
                except ConfigInvalid:
                    continue

    @property
    def has_runners(self) -> bool:
        """Whether a member of the team says what executes its tasks."""
        return any(member.runner is not None for member in self._team)

    @cached_property
    def _found(self) -> list[Found]:
        return find_definitions(self._project)

    def _defined(self, name: str) -> Found | None:
        own = name.startswith(OWN)
        wanted = name.removeprefix(OWN)
        among = (found for found in self._found if found.source == PLUGIN or not own)
        return next((found for found in among if found.name.casefold() == wanted), None)

    def _member(self, member: TeamAgent) -> Agent:
        namesake = self._defined(member.name.casefold())
        own = _defined_agent(namesake).definition if namesake else None
        runner = member.runner or (own.runner if own else CLAUDE)
        base = own if own is not None and own.runner == runner else self._declaring(runner)
        if base is None and runner not in RunnerName.values():
            hint = "; `corral init --with-opencode` writes the agent that has it" if runner == "opencode" else ""
            known = self._runners()
            raise self._unusable(member, "runner", f"there is no runner {runner!r}; there are: {known}{hint}")
        if member.model and base is not None and base.command and MODEL not in base.command:
            raise self._unusable(member, "model", f"the command of the runner {runner!r} has no {MODEL}")
        model = member.model or _model(base, runner) or (_model(own, runner) if own else None)
        return Agent(
            name=member.name,
            description=member.description,
            source=TEAM,
            file=teams_file(self._project),
            capabilities=tuple(dict.fromkeys((*member.capabilities, *(own.capabilities if own else ())))),
            runner=runner,
            model=model,
            claude_model=model if runner == CLAUDE else own.model if own else None,
            program=_program(base, model),
            program_env=base.runner_env if base else {},
            instructions=member.instructions,
            definition=own,
        )

    def _declaring(self, runner: str) -> AgentDefinition | None:
        """The first definition whose own command is called so."""
        if runner in RunnerName.values():
            return None
        given = (found.definition for found in self._found if found.definition is not None)
        return next((definition for definition in given if definition.runner == runner), None)

    def _runners(self) -> str:
        own = [found.definition.runner for found in self._found if found.definition is not None]
        return ", ".join(dict.fromkeys((*RunnerName.values(), *own)))

    def _unusable(self, member: TeamAgent, field: str, reason: str) -> ConfigInvalid:
        file = teams_file(self._project)
        return ConfigInvalid(
            f"The agent {member.name} of the team cannot be started.",
            cause=f"{field}: {reason}",
            remedy=f"Correct {file}, or add an agent definition that has this runner.",
            details={"file": str(file), "errors": [{"field": field, "reason": reason}]},
        )


def _defined_agent(found: Found) -> Agent:
    definition = found.definition
    if definition is None:
        assert found.error is not None
        raise found.error
    model = _model(definition, definition.runner)
    return Agent(
        name=definition.name,
        description=definition.description,
        source=found.source,
        file=found.file,
        capabilities=tuple(definition.capabilities),
        runner=definition.runner,
        model=model,
        claude_model=definition.model,
        program=_program(definition, model),
        program_env=definition.runner_env,
        definition=definition,
    )


def _model(definition: AgentDefinition | None, runner: str) -> str | None:
    if definition is None:
        return None
    return definition.model if runner == CLAUDE else definition.runner_model


def _program(definition: AgentDefinition | None, model: str | None) -> tuple[str, ...]:
    command = definition.command if definition is not None else []
    return tuple(str(model) if argument == MODEL else argument for argument in command)
