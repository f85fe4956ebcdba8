"""Over HTTP: whom a task can be given to by name, and what executes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from corral.coordination.services import Services
from corral.core.errors import ApiKeyUnavailable, ConfigInvalid, Conflict, FolderLinked, LockHeld, RunnerUnavailable
from corral.core.instants import LONGEST_SPAN_S
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, PERSON, PROJECT, Routes
from corral.core.states import RunnerName
from corral.work.agents import choices, definitions, improvements, record
from corral.work.agents.api import (
    A_VERSION,
    Agent,
    AgentChoice,
    AgentRecord,
    AgentVersion,
    AgentVersionText,
    ChosenVersion,
    Deployed,
    Improvement,
    NewImprovement,
    NewRollout,
    Pinned,
    Rollout,
    Runner,
    StartedRollout,
    Unpinned,
    VersionDiff,
)
from corral.work.tasks.api import Short
from corral.work.workers.supervisor import Supervisor

_Version = Annotated[Short, Field(description=A_VERSION)]
router = Routes("agents", scope=PROJECT, callers=EVERYONE)
of_runners = Routes("agents", "/runners", scope=MACHINE, callers=EVERYONE)
of_definitions = Routes("agents", "/agents/{name}", scope=PROJECT, callers=EVERYONE, errors=(ConfigInvalid,))


@router.get("/agents", answer=list[Agent])
async def listing(services: Services) -> list[Payload]:
    """The members of the team and every agent definition; ``problem``: why one could do nothing here."""
    roster, check = services.roster(), services.of(Supervisor).check
    return await services.work(lambda: [roster.shown(name, check) for name in roster.names()])


@router.get("/agents/{name}", answer=Agent)
async def show(services: Services, name: str) -> Payload:
    """One of them."""
    roster, check = services.roster(), services.of(Supervisor).check
    return await services.work(lambda: roster.shown(name, check))


@of_definitions.get("/versions")
async def versions(services: Services, name: str) -> list[AgentVersion]:
    """The versions of its definition, the newest first; ``current``: what its file says now."""
    return await services.work(lambda: definitions.listing(services, name))


@of_definitions.get("/versions/{version}")
async def version(services: Services, name: str, version: str) -> AgentVersionText:
    """One version with its text, by its number or the first characters of its hash."""
    return await services.work(lambda: definitions.show(services, name, version))


@of_definitions.get("/diff")
async def diff(services: Services, name: str, before: _Version, after: _Version) -> VersionDiff:
    """The difference between two versions, as a unified diff."""
    return await services.work(lambda: definitions.diff(services, name, before, after))


@of_definitions.post("/rollback", scope=MACHINE, callers=PERSON, errors=(Conflict, LockHeld, FolderLinked))
async def rollback(services: Services, name: str, body: ChosenVersion) -> Deployed:
    """Write a version's text back into the project's file; ``changed`` is False if it says so already."""
    return await services.work(lambda: improvements.deploy(services, name, body.version))


@of_definitions.post("/pin", callers=PERSON, errors=(Conflict,))
async def pin(services: Services, name: str, body: ChosenVersion) -> Pinned:
    """Have all of its tasks work by a stored version, whatever its file says."""
    return await services.work(lambda: choices.pin(services, name, body.version))


@of_definitions.delete("/pin", callers=PERSON)
async def unpin(services: Services, name: str) -> Unpinned:
    """Have its tasks work by its file again; ``was``: the version that it was pinned to."""
    return await services.work(lambda: choices.unpin(services, name))


@of_definitions.get("/rollout", answer=Rollout)
async def rollout_status(services: Services, name: str) -> Payload:
    """Its newest rollout, and how both versions compare."""
    return await services.work(lambda: choices.status(services, name))


@of_definitions.post("/rollout", answer=StartedRollout, callers=PERSON, errors=(Conflict,))
async def start_rollout(services: Services, name: str, body: NewRollout) -> Payload:
    """Have a share of its tasks work by another version, until that is found worse or a person ends it."""
    return await services.work(lambda: choices.start(services, name, body.version, body.share))


@of_definitions.delete("/rollout", answer=Rollout, callers=PERSON)
async def stop_rollout(services: Services, name: str) -> Payload:
    """End its rollout; one that has ended by itself is no longer shown under what needs a person."""
    return await services.work(lambda: choices.stop(services, name))


@of_definitions.get("/improvement", answer=Improvement)
async def improvement(services: Services, name: str) -> Payload:
    """Its newest improvement, with the report once both versions were compared."""
    return await services.work(lambda: improvements.status(services, name))


@of_definitions.post("/improvement", answer=Improvement, errors=(Conflict, RunnerUnavailable, ApiKeyUnavailable))
async def improve(services: Services, name: str, body: NewImprovement) -> Payload:
    """Have a meta-agent propose a better version, and compare both; deployed only if `deploy_if_better` says so."""

    def start() -> Payload:
        services.of(Supervisor).check(
            RunnerName.ANTHROPIC, ()
        )  # the meta-agent's: without a key nothing would come of it
        return improvements.start(services, name, body.feedback, deploys=body.deploy_if_better)

    return await services.work(start)


@of_definitions.post("/improvement/resume", answer=Improvement, errors=(Conflict,))
async def resume_improvement(services: Services, name: str) -> Payload:
    """Go on with its newest improvement, whose tasks the API or the machine failed."""
    return await services.work(lambda: improvements.resume(services, name))


@router.get("/agent-choices")
async def agent_choices(services: Services) -> list[AgentChoice]:
    """The pins and rollouts in force."""
    return await services.work(lambda: choices.listing(services))


@router.get("/agent-record")
async def agent_record(
    services: Services,
    agent: Annotated[Short | None, Field(description="An agent's name (default: all).")] = None,
    since_s: Annotated[float, Field(gt=0, le=LONGEST_SPAN_S, description="How far back.")] = LONGEST_SPAN_S,
    by: Annotated[record.By | None, Field(description="Also tell these apart.")] = None,
) -> list[AgentRecord]:
    """The results of the attempts of each agent; rates with their 95 % intervals, medians with how many they are of."""
    since = services.now() - timedelta(seconds=since_s)
    return await services.store.read(record.stats, agent, since, by)


@of_runners.get("")
async def runners(services: Services) -> list[Runner]:
    """The runners that always exist; ``problem``: why one could execute nothing here, and ``remedy``."""

    return await services.work(lambda: [_runner(services, name) for name in RunnerName])


def _runner(services: Services, name: RunnerName) -> Runner:
    try:
        services.of(Supervisor).check(name, ())
    except RunnerUnavailable as error:
        return {"name": name, "problem": error.message, "remedy": error.remedy}
    return {"name": name, "problem": None, "remedy": None}
