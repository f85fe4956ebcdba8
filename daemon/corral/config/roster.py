"""The agents that a task can name: the members of the team, and every agent definition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from corral.config.agents import ANTHROPIC, CLAUDE, MODEL, PLUGIN, AgentDefinition, DefinitionFile, find_definitions
from corral.config.paths import Project
from corral.config.teams import TeamAgent, teams_file
from corral.core.errors import ConfigInvalid, NotFound, RunnerUnavailable
from corral.core.states import RunnerName

Check = Callable[[RunnerName, Sequence[str]], None]
"""Raises RunnerUnavailable if a runner, or an agent's own program, is missing."""

TEAM = "team"
OWN = "corral:"
"""Prefix of the plugin's own agents, as Claude Code names them."""


@dataclass(frozen=True)
class Agent:
    """An agent with everything needed to start it.

    Attributes:
        source: ``team``, ``project`` or ``plugin``.
        file: The file that defines it.
        runner: ``claude``, ``anthropic``, ``command``, or a definition's own runner name.
        model: The runner's model; None leaves it to the settings.
        claude_model: The model inside Claude Code.
        program: Its own command's arguments; empty if it has none.
        program_env: Variables for that command.
        instructions: The team's instructions for it.
        definition: Its definition, if any.
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
        """The default runner of its tasks."""
        return RunnerName(self.runner) if self.runner in RunnerName.values() else RunnerName.COMMAND

    def shown(self) -> dict[str, Any]:
        """The agent as a list shows it (JSON-serialisable); ``tools`` None: all of its runner's."""
        definition = self.definition
        return {
            "name": self.name,
            "description": self.description,
            "source": self.source,
            "file": str(self.file),
            "runner": self.runner,
            "model": self.model,
            "capabilities": list(self.capabilities),
            "command": list(self.program),
            "tools": definition.tools if definition else None,
            "disallowed_tools": (definition.disallowedTools if definition else None) or [],
            "limits": definition.own_limits if definition else {},
        }

    @property
    def can_be_chosen(self) -> bool:
        """Whether it can execute a task that has a prompt and no command."""
        return self.runner_name is not RunnerName.COMMAND or bool(self.program)

    def lacks(self, capabilities: Collection[str]) -> list[str]:
        """The capabilities that it lacks; compared without case."""
        mine = {capability.casefold() for capability in self.capabilities}
        return [capability for capability in capabilities if capability.casefold() not in mine]


@dataclass(frozen=True)
class Stored:
    """A stored version of a definition, which replaces the definition in the file.

    Attributes:
        instead_of: It counts only while the file's text has this hash; None: always.
    """

    definition: AgentDefinition
    version: str
    instead_of: str | None = None


class Roster:
    """All agents by name, without case. A team member wins over a definition, the project's over the plugin's.

    Args:
        project: The project; its definitions are read on first use.
        team: The members of the team.
    """

    def __init__(self, project: Project, team: Sequence[TeamAgent]) -> None:
        self._project = project
        self._team = team
        self.replaced: dict[str, Stored] = {}
        """The stored versions that replace definitions in files, by name without case."""

    def find(self, name: str) -> Agent:
        """The agent with that name.

        Raises:
            NotFound: There is none; the message lists the others.
            ConfigInvalid: Its file is not valid.
        """
        folded = name.strip().casefold()
        for member in self._team:
            if member.name.casefold() == folded:
                return self._member(member)
        item = self._find_definition(folded)
        if item is None:
            raise NotFound(f"There is no agent {name[:80]!r}; there are: {', '.join(self.names())}.")
        return _agent_of(item)

    def names(self) -> list[str]:
        """Every name that :meth:`find` knows, once."""
        first: dict[str, str] = {}
        for name in [member.name for member in self._team] + [item.name for item in self._definition_files]:
            first.setdefault(name.casefold(), name)
        return list(first.values())

    def definitions(self) -> Sequence[DefinitionFile]:
        """Every definition, the project's first."""
        return self._definition_files

    def shown(self, name: str, check: Check) -> dict[str, Any]:
        """An agent as a list shows it; ``problem`` is why it cannot start here, or None.

        Raises:
            NotFound: There is none with that name.
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
        """A team member as a list shows it; one without a runner may be a person's session, and has no problem."""
        shown = {**member.model_dump(), **self.shown(member.name, check)}
        return shown if member.runner is not None else {**shown, "problem": None}

    def with_runner(self) -> Iterator[Agent]:
        """The members of the team that declare a runner, in file order, without invalid ones."""
        for member in self._team:
            if member.runner is not None:
                try:
                    yield self._member(member)
                except ConfigInvalid:
                    continue

    def known(self) -> Iterator[Agent]:
        """Every agent that :meth:`find` knows, without invalid ones."""
        for name in self.names():
            try:
                yield self.find(name)
            except ConfigInvalid:
                continue

    def capable(self, capabilities: Collection[str]) -> Iterator[Agent]:
        """The agents that a task with these required capabilities may get.

        First the members of the team that declare a runner and can execute a prompt, in file order; then the valid
        definitions that advertise capabilities, the project's first.
        """
        considered = {member.name.casefold() for member in self._team}
        for agent in self.with_runner():
            if not agent.lacks(capabilities) and agent.can_be_chosen:
                yield agent
        for item in self._definition_files:
            name, definition = item.name.casefold(), item.definition
            if name not in considered and definition is not None and definition.capabilities:
                agent = _agent_of(item)
                if not agent.lacks(capabilities):
                    yield agent
            considered.add(name)

    def with_versions(self, stored: Mapping[str, Stored]) -> Roster:
        """The same agents, some by a stored version of their definition.

        Args:
            stored: By name without case.
        """
        roster, pending = Roster(self._project, self._team), dict(stored)
        roster._definition_files = []
        for item in self._definition_files:
            version = pending.pop(item.name.casefold(), None)
            content_hash = item.definition.content_hash if item.definition else None
            if version is not None and (version.instead_of is None or version.instead_of == content_hash):
                definition = version.definition.model_copy(update={"file": item.file})
                item = replace(item, definition=definition, error=None)
                roster.replaced[definition.name.casefold()] = version
            roster._definition_files.append(item)
        return roster

    @property
    def has_runners(self) -> bool:
        """Whether a member of the team declares a runner."""
        return any(member.runner is not None for member in self._team)

    @cached_property
    def _definition_files(self) -> list[DefinitionFile]:
        return find_definitions(self._project)

    def _find_definition(self, name: str) -> DefinitionFile | None:
        own = name.startswith(OWN)
        bare_name = name.removeprefix(OWN)
        candidates = (item for item in self._definition_files if item.source == PLUGIN or not own)
        return next((item for item in candidates if item.name.casefold() == bare_name), None)

    def _member(self, member: TeamAgent) -> Agent:
        namesake = self._find_definition(member.name.casefold())
        own = _agent_of(namesake).definition if namesake else None
        runner = member.runner or (own.runner if own else CLAUDE)
        base = own if own is not None and own.runner == runner else self._definition_with_runner(runner)
        if base is None and runner not in RunnerName.values():
            hint = "; `corral init --with-opencode` writes the agent that has it" if runner == "opencode" else ""
            runners = self._runners()
            raise self._unusable(member, "runner", f"there is no runner {runner!r}; there are: {runners}{hint}")
        if member.model and base is not None and base.command and MODEL not in base.command:
            raise self._unusable(member, "model", f"the command of the runner {runner!r} does not use {MODEL}")
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

    def _definition_with_runner(self, runner: str) -> AgentDefinition | None:
        """The first definition that declares this runner."""
        if runner in RunnerName.values():
            return None
        definitions = (item.definition for item in self._definition_files if item.definition is not None)
        return next((definition for definition in definitions if definition.runner == runner), None)

    def _runners(self) -> str:
        own = [item.definition.runner for item in self._definition_files if item.definition is not None]
        return ", ".join(dict.fromkeys((*RunnerName.values(), *own)))

    def _unusable(self, member: TeamAgent, field: str, reason: str) -> ConfigInvalid:
        file = teams_file(self._project)
        return ConfigInvalid(
            f"Cannot start the team's agent {member.name}.",
            cause=f"{field}: {reason}",
            remedy=f"Correct {file}, or add an agent definition that has this runner.",
            details={"file": str(file), "errors": [{"field": field, "reason": reason}]},
        )


def _agent_of(item: DefinitionFile) -> Agent:
    definition = item.definition
    if definition is None:
        assert item.error is not None
        raise item.error
    model = _model(definition, definition.runner)
    return Agent(
        name=definition.name,
        description=definition.description,
        source=item.source,
        file=item.file,
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
    if runner == ANTHROPIC:
        return definition.runner_model or definition.model
    return definition.model if runner == CLAUDE else definition.runner_model


def _program(definition: AgentDefinition | None, model: str | None) -> tuple[str, ...]:
    command = definition.command if definition is not None else []
    return tuple(str(model) if argument == MODEL else argument for argument in command)
