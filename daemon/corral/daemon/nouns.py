"""The nouns' operations that the daemon serves."""

from __future__ import annotations

from collections.abc import Sequence

from corral.coordination.locks import operations as locks
from corral.coordination.mail import operations as messages
from corral.coordination.sessions import operations as sessions
from corral.core.routing import Routes
from corral.faces.hooks import operations as hooks
from corral.faces.http import daemon
from corral.observe.view import operations as status_line
from corral.work.tasks import operations as tasks

HOT = tuple(module.router for module in (hooks, locks, messages, sessions, status_line, tasks, daemon))
"""Those of sessions, the most frequent first."""


def every() -> Sequence[Routes]:
    """All, in the order in which a path is looked for, which is that of the document. The others are imported here, once
    somebody asks for one: a daemon that only sessions speak to starts without them.
    """
    from corral.coordination.features import operations as features
    from corral.coordination.handoffs import operations as handoffs
    from corral.coordination.mail import contact_operations as contacts
    from corral.coordination.memory import operations as memory
    from corral.faces.http import keys
    from corral.faces.web import operations as web
    from corral.landing import operations as merges
    from corral.landing import rewind_operations as rewinds
    from corral.landing import steering_operations as steering
    from corral.landing import uninstall
    from corral.landing.verify import operations as verification
    from corral.observe.alerts import operations as alerts
    from corral.observe.audit import operations as audit
    from corral.observe.events import operations as events
    from corral.observe.metrics import operations as metrics
    from corral.observe.retention import operations as gc
    from corral.observe.wait import operations as wait
    from corral.work.agents import operations as agents
    from corral.work.agents import team_operations as teams
    from corral.work.dead_letters import operations as dead_letters
    from corral.work.loops import operations as loops
    from corral.work.merges import session_operations as session_work
    from corral.work.roadmap import operations as supervisor
    from corral.work.state import operations as state
    from corral.work.swarm import operations as swarm
    from corral.work.templates import operations as templates
    from corral.work.trust import operations as trust
    from corral.work.worktrees import operations as worktrees

    modules = (
        daemon, keys, events, teams, agents, session_work, sessions, locks, features, handoffs, hooks, messages, contacts,
        state, tasks, dead_letters, loops, templates, supervisor, swarm, metrics, audit, gc, status_line, alerts, merges,
        rewinds, trust, verification, uninstall, worktrees, wait, memory, web,
    )  # fmt: skip
    return [
        *(module.router for module in modules),
        steering.router,
        steering.targets,
        agents.of_definitions,
        agents.of_runners,
        metrics.prometheus,
    ]
