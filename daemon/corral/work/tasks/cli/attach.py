"""``corral attach``: go on with a worker's conversation."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import Annotated, Any

from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.faces.cli.asking import Request, asks
from corral.faces.cli.parsing import Option
from corral.faces.cli.terminal.options import argument
from corral.faces.cli.terminal.output import echo, for_programs, printed
from corral.faces.cli.terminal.person import is_terminal, refuse_agents


@asks("POST /tasks/{task_id}/attach", prints="work.tasks.api.ConversationLine")
def attach(
    request: Request,
    task_id: Annotated[str, argument("A task's number or id, its first four or more characters.", "TASK", of="task")],
    print_only: Annotated[bool, Option("--print", help="Print the command line instead of running it.")] = False,
) -> None:
    """Resume the conversation of a task's worker in this terminal."""
    refuse_agents("Attaching to a conversation", f"corral attach {task_id}")
    if not (print_only or for_programs() or is_terminal()):
        raise InvalidInput(
            "Not a terminal: cannot attach.", cause="Standard input is not a terminal.", remedy="Use --print."
        )
    conversation = request.send(task_id=task_id, timeout_s=180)
    argv = [conversation["command"], "--resume", conversation["session_id"]]
    line = f"cd {shlex.quote(conversation['worktree'])} && {shlex.join(argv)}"
    if printed({**conversation, "line": line}):
        return
    if print_only:
        echo(line)
    else:
        _become(conversation, argv)


def _become(conversation: dict[str, Any], argv: list[str]) -> None:
    """Replace this process by the client, in the worktree of the conversation."""
    program = shutil.which(argv[0])
    if program is None:
        raise RunnerUnavailable(
            f"There is no Claude Code client {argv[0]!r}.",
            remedy="Install Claude Code, or set runners.claude.command to its path.",
        )
    if conversation["created"]:
        echo(f"Its worktree was gone; it is at {conversation['worktree']} again, on {conversation['branch']}.")
    sys.stdout.flush()
    os.chdir(conversation["worktree"])
    os.execv(program, argv)
