"""Over HTTP: whom a task can be given to by name, and what executes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, Field

from corral.coordination.services import Services
from corral.core.errors import RunnerUnavailable
from corral.core.instants import LONGEST_SPAN_S
from corral.core.routing import Routes
from corral.core.states import RunnerName
from corral.work.agents import choices, definitions, improvements, record
from corral.work.tasks.wire import Short, Text
from corral.work.workers.supervisor import Supervisor

router = Routes("agents")


class Version(BaseModel):
    """A version: its number, or the first characters of its hash."""

    version: Short


class Rollout(Version):
    """A version, and the share of the tasks that work by it."""

    share: float = Field(gt=0, lt=1)


class Improvement(BaseModel):
    """The feedback on an agent, and whether a version that does better is written into its file."""

    feedback: Annotated[Text, Field(max_length=100_000)] | None = None
    deploy_if_better: bool = False


@router.get("/agents")
async def listing(services: Services) -> list[dict[str, Any]]:
    """The members of the team and every agent definition; ``problem``: why one could do nothing here."""
    roster, check = services.roster(), services.of(Supervisor).check
    return await services.work(lambda: [roster.shown(name, check) for name in roster.names()])


@router.get("/agents/{name}")
async def show(services: Services, name: str) -> dict[str, Any]:
    """One of them."""
    roster, check = services.roster(), services.of(Supervisor).check
    return await services.work(lambda: roster.shown(name, check))


@router.get("/agents/{name}/versions")
async def versions(services: Services, name: str) -> list[dict[str, Any]]:
    """The versions of its definition, the newest first; ``current``: what its file says now."""
    return await services.work(lambda: definitions.listing(services, name))


@router.get("/agents/{name}/versions/{version}")
async def version(services: Services, name: str, version: str) -> dict[str, Any]:
    """One version with its text, by its number or the first characters of its hash."""
    return await services.work(lambda: definitions.show(services, name, version))


@router.get("/agents/{name}/diff")
async def diff(services: Services, name: str, before: Short, after: Short) -> dict[str, Any]:
    """The difference between two versions, as a unified diff."""
    return await services.work(lambda: definitions.diff(services, name, before, after))


@router.post("/agents/{name}/rollback")
async def rollback(services: Services, name: str, body: Version) -> dict[str, Any]:
    """Write a version's text back into the project's file; ``changed`` is False if it says so already."""
    return await services.work(lambda: improvements.deploy(services, name, body.version))


@router.post("/agents/{name}/pin")
async def pin(services: Services, name: str, body: Version) -> dict[str, Any]:
    """Have all of its tasks work by a stored version, whatever its file says."""
    return await services.work(lambda: choices.pin(services, name, body.version))


@router.delete("/agents/{name}/pin")
async def unpin(services: Services, name: str) -> dict[str, Any]:
    """Have its tasks work by its file again; ``was``: the version that it was pinned to."""
    return await services.work(lambda: choices.unpin(services, name))


@router.get("/agents/{name}/rollout")
async def rollout_status(services: Services, name: str) -> dict[str, Any]:
    """Its newest rollout, and how both versions compare."""
    return await services.work(lambda: choices.status(services, name))


@router.post("/agents/{name}/rollout")
async def start_rollout(services: Services, name: str, body: Rollout) -> dict[str, Any]:
    """Have a share of its tasks work by another version, until that is found worse or a person ends it."""
    return await services.work(lambda: choices.start(services, name, body.version, body.share))


@router.delete("/agents/{name}/rollout")
async def stop_rollout(services: Services, name: str) -> dict[str, Any]:
    """End its rollout; one that has ended by itself is no longer shown under what needs a person."""
    return await services.work(lambda: choices.stop(services, name))


@router.get("/agents/{name}/improvement")
async def improvement(services: Services, name: str) -> dict[str, Any]:
    """Its newest improvement, with the report once both versions were compared."""
    return await services.work(lambda: improvements.status(services, name))


@router.post("/agents/{name}/improvement")
async def improve(services: Services, name: str, body: Improvement) -> dict[str, Any]:
    """Have a meta-agent propose a better version, and compare both; deployed only if `deploy_if_better` says so."""
    return await services.work(lambda: improvements.start(services, name, body.feedback, deploys=body.deploy_if_better))


@router.post("/agents/{name}/improvement/resume")
async def resume_improvement(services: Services, name: str) -> dict[str, Any]:
    """Go on with its newest improvement, whose tasks the API or the machine failed."""
    return await services.work(lambda: improvements.resume(services, name))


@router.get("/agent-choices")
async def agent_choices(services: Services) -> list[dict[str, Any]]:
    """The pins and rollouts in force."""
    return await services.work(lambda: choices.listing(services))


@router.get("/agent-record")
async def agent_record(
    services: Services,
    agent: Short | None = None,
    since_s: Annotated[float, Field(gt=0, le=LONGEST_SPAN_S, description="How far back, seconds.")] = LONGEST_SPAN_S,
    by: Annotated[record.By | None, Field(description="The groups to tell apart.")] = None,
) -> list[dict[str, Any]]:
    """The results of the attempts of each agent; rates with their 95 % intervals, medians with how many they are of."""
    since = services.now() - timedelta(seconds=since_s)
    return await services.store.read(lambda conn: record.stats(conn, agent, since, by))


@router.get("/runners")
async def runners(services: Services) -> list[dict[str, Any]]:
    """The runners that always exist; ``problem``: why one could execute nothing here, and ``remedy``."""

    def look() -> list[dict[str, Any]]:
        return [{"name": str(name), **_problem(services, name)} for name in RunnerName]

    return await services.work(look)


def _problem(services: Services, name: RunnerName) -> dict[str, str | None]:
    try:
        services.of(Supervisor).check(name, ())
    except RunnerUnavailable as error:
        return {"problem": error.message, "remedy": error.remedy}
    return {"problem": None, "remedy": None}
