"""``help``: what a session may need to know, a topic at a time, so that tool definitions can stay short."""

from __future__ import annotations

from corral.errors import NotFound
from corral.models.payload import Payload
from corral.server.mcp.calls import Function, told

TOPICS = {
    "locks": (
        "Editing a file locks it for you; the lock is renewed by use and goes with your session. acquire_lock "
        "reserves ahead: a path, a folder (src/), a glob (src/**/*.py) or a logical key: api:GET /v1/users, "
        "db:schema:users, event:user.created, flag:…, env:…, contract:…, feature:ID:pause. All sessions and "
        "worktrees see it. If it is held: do other work, wait, or send_message to locked_by. release_lock gives "
        "it up early."
    ),
    "work": (
        "submit_work with a command or a prompt starts a worker in a worktree of its own; what it changes lands "
        "by itself. Without either, a session claims it: get_work → do it → complete_work(task_id, success, "
        "result). A claimed task goes back on offer when your session ends; also_held: others that you claimed and "
        "never completed. priority 10 is first. depends_on: ids that must have landed. claims: what it will change; "
        "tasks about the same do not run together, those that share a little do if nothing else is ready. "
        "get_task reads any task's result. cancel_task_convention(task_id, reason) ends any task as failed. "
        "thread_id: one for the whole batch."
    ),
    "messages": (
        "send_message to an agent's name, a role of the team, or all. Mail enters your context by itself; urgent "
        "mail also keeps you from stopping, once. fetch_inbox shows it again. Answer with the same thread_id. "
        "Corral itself sends what completed, failed or merged."
    ),
    "handoffs": (
        "write_handoff(summary, completed_work, in_progress, decisions, next_steps, relevant_files) when you stop "
        "in the middle of something; your successor is given it when it starts. read_handoff shows earlier ones. "
        "A session that ends without a word has one written for it."
    ),
    "merging": (
        "Commit on a branch of your own worktree, then request_merge: a candidate is built on the target's tip, "
        "verified, and lands if it is green. merge_status(merge_id) tells how it went. conflict: merge the target "
        "into your branch, resolve, commit, request again. failed: read the receipt's log, fix it, request again. "
        "Never push to the target or merge it yourself."
    ),
    "sessions": (
        "You are registered automatically. register_session(capabilities, current_task) says what you can do; "
        "discover_agents finds others by capability and status. Every call is a heartbeat; the tool is for "
        "long silences."
    ),
    "memory": (
        "remember(summary, …, tags) keeps what later sessions should know; recall(tags or words) finds it, the "
        "best first."
    ),
    "profiles": (
        "`corral mcp --profile core|mail|queue|full` chooses the tools: core for coding, mail for those written "
        "for MCP Agent Mail, queue for orchestrators (features, cancellation, cleanup), full for all. The corral "
        "command can do all of it too."
    ),
}


@told
async def help(topic: str | None = None) -> Payload:
    """How to use all this: topics without an argument, else one of them."""
    if topic is None:
        return {"success": True, "topics": list(TOPICS)}
    if topic not in TOPICS:
        raise NotFound(f"There is no topic {topic[:40]!r}.", remedy=f"There are: {', '.join(TOPICS)}.")
    return {"success": True, "topic": topic, "text": TOPICS[topic]}


TOOLS: tuple[Function, ...] = (help,)
