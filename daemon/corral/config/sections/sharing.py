"""Many sessions on one branch: landing, locks, mail, sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from corral.config.sections.values import (
    DAY_S,
    Branch,
    Command,
    Commands,
    Globs,
    MessageTemplate,
    Pause,
    Remote,
    Seconds,
    Section,
)

MOST_SLOTS = 16
"""Verifications that may run side by side, at most."""


class Landing(Section):
    """How finished work reaches the target branch. The version committed on that branch counts, not a worktree's."""

    target: Branch | None = Field(
        default=None, description="Branch that finished work lands on; null: the current branch of the main checkout."
    )
    remote: Remote | None = Field(
        default=None,
        description="Name of the git remote that finished work is pushed to (`origin`); null: it lands in this repository alone.",
    )
    push: Literal["target", "branch"] = Field(
        default="target",
        description="What is pushed there: the target, which then lands there first; or only the branches of landed tasks.",
    )
    fetch_s: Pause = Field(
        default=300,
        description="Interval at which the remote's target is fetched while nothing waits to land on it; 0: not then.",
    )
    verify: Commands = Field(
        default=[],
        description="Commands that must pass on the merged tree, in order; none: work lands as `unverified`.",
    )
    check: Commands = Field(
        default=[],
        description="Cheap commands that each request must pass, by itself on the target's tip, before it is verified with "
        "others.",
    )
    affected: Command | None = Field(
        default=None,
        description="Command that prints the tests that a candidate affects, one a line; the first command of `verify` runs with "
        "them as arguments first, and then everything.",
    )
    reports: Globs = Field(
        default=[],
        description="JUnit XML files that the commands write, relative to the worktree; they tell which tests failed.",
    )
    verify_each: bool = Field(
        default=False, description="Verify every request of a chain by itself, so that none lands `covered` by another."
    )
    verdict_max_age_s: Annotated[float, Field(ge=60, le=30 * DAY_S)] = Field(
        default=DAY_S, description="Age up to which a green verdict counts for another candidate with the same tree."
    )
    approve: Literal["always", "paths", "never"] = Field(
        default="paths",
        description="Merges that need `corral merge approve`: all, those that `approve_paths` names, or none.",
    )
    approve_paths: Globs = Field(
        default=["**/CLAUDE.md", "**/CLAUDE.local.md", "**/.claude/**", "**/.mcp.json", "hooks/**", ".corral/**"],
        description="A merge that changes a matching path, or a file that `verify`, `check` or `affected` names, needs "
        "`corral merge approve`.",
    )
    rest_s: Pause = Field(
        default=1,
        description="Idle time of git in the target's checkout before it is moved; waits at most 30 s.",
    )
    ageing_s: Pause = Field(
        default=600, description="Interval after which a waiting merge request gains one step of priority; 0: never."
    )
    timeout_s: Seconds = Field(default=600, description="Time limit for one verification.")
    on_conflict: Literal["return"] = Field(
        default="return", description="Handling of a conflict: the branch goes back to its author."
    )
    style: Literal["merge", "squash", "rebase", "fast-forward"] = Field(
        default="merge",
        description="Shape of what lands: a merge commit (none where the target has not moved), one commit, the branch's own "
        "commits upon the target, or nothing but a branch that has all of the target.",
    )
    message: MessageTemplate | None = Field(
        default=None,
        description="Message of the commit that `style` makes, with `{title}`, `{branch}`, `{target}`, `{task}`, `{merge}` and "
        "`{commits}` in it; trailers that name task and request follow.",
    )
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] | Literal["auto"] = Field(
        default="auto",
        description="Number of verifications that run side by side, each in a worktree of its own; `auto`: half the "
        "processor's cores, at most 4.",
    )
    reruns: int = Field(default=1, ge=0, le=10, description="Number of reruns before a red verification counts as red.")
    control_max_age_s: Pause = Field(
        default=3600,
        description="Age, at a change's red run, up to which a green run of its target is evidence against it; older: the "
        "target is verified again.",
    )


class Locks(Section):
    """Locks on files."""

    enforcement: Literal["enforce", "warn", "off"] = Field(
        default="enforce",
        description="Response to an edit of a file that another session holds: deny, warn, or nothing.",
    )
    ttl_s: Seconds = Field(default=3600, description="Lifetime of an unused lock; every use renews it.")
    blind_writes: Literal["deny", "warn", "off"] = Field(
        default="deny",
        description="A write of a whole file that another session changed since the writer last saw it, or that the writer "
        "never read and git does not have: refused once with the difference, or only told of.",
    )
    on_daemon_down: Literal["allow", "deny"] = Field(
        default="allow", description="Whether edits pass while no daemon answers; `corral init` activates a change."
    )


class Messages(Section):
    """Mail between sessions."""

    wake: Literal["low", "normal", "high", "urgent", "off"] = Field(
        default="normal",
        description="Lowest importance of mail that wakes an idle session in a terminal; `off`: none.",
    )


class Sessions(Section):
    """When a silent session counts as stalled or disconnected."""

    stale_after_s: Seconds = Field(
        default=900,
        description="Time without a heartbeat, in the middle of a turn, after which a session is `stalled`; "
        "after twice that it is disconnected.",
    )
    lease_s: Seconds = Field(
        default=14_400,
        description="Time that a person keeps a claimed task; a session keeps its task while it is alive.",
    )
