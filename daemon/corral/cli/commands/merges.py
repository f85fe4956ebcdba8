"""``corral merge``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corral.cli.commands.tasks import print_log
from corral.cli.help import Grouped
from corral.cli.terminal.options import Json, client, here, session_id
from corral.cli.terminal.output import emit, fact, paint, say, state, table
from corral.cli.terminal.person import confirm, refuse_agents
from corral.client.connection import segment
from corral.config.paths import find_checkout
from corral.errors import InvalidInput
from corral.models.states import MergeState
from corral.models.visible import one_line, visible

app = typer.Typer(
    cls=Grouped, help="The way of a branch onto its target: merged, verified, landed.", no_args_is_help=True
)
_STATES = f"Only these; repeatable. One of: {', '.join(MergeState.values())}."
Id = Annotated[str, typer.Argument(help="A merge id, or its first characters.", metavar="ID")]


@app.command("list")
def listing(
    status: Annotated[list[MergeState] | None, typer.Option("--state", help=_STATES, metavar="STATE")] = None,
    branch: Annotated[str | None, typer.Option("--branch", help="Only of this branch.", metavar="NAME")] = None,
    as_json: Json = False,
) -> None:
    """List merge requests in order of submission."""
    rows = client().listing("/merges", {"state": status or [], "branch": branch})
    if as_json:
        emit(rows)
        return
    columns = [
        ("ID", "merge_id", 36),
        ("STATE", "state", 10),
        ("BRANCH", "branch", 40),
        ("TARGET", "target", 20),
        ("REASON", "reason", 70),
    ]
    table(rows, columns, empty="No merge requests. `corral merge submit` puts this branch into the queue.")


@app.command()
def detail(merge_id: Id, as_json: Json = False) -> None:
    """Show everything about a merge request."""
    merge = client().request("GET", f"/merges/{segment(merge_id)}")
    if as_json:
        emit(merge)
        return
    say(f"{paint(one_line(merge['title']), 'bold')}  {state(merge['state'])}")
    rows = [
        ("id", merge["merge_id"]),
        ("branch", f"{merge['branch']} → {merge['target']}"),
        ("head", merge["head_sha"][:12]),
    ]
    rows += [("reason", merge["reason"]), ("approved", merge["approved_sha"]), ("landed", merge["landed_sha"])]
    for name, value in rows:
        if value:
            fact(name, value, 8)
    for conflict in merge["conflicts"] or []:
        say(f"  {'':<8} {conflict['kind']}: {one_line(conflict['path'])}")
    receipt = merge["receipt"]
    if receipt:
        tests = f", {receipt['tests']} tests" if receipt["tests"] is not None else ""
        say(
            f"  {'receipt':<8} {state(receipt['status'])} in {receipt['duration_s']:.1f} s{tests}  tree {receipt['tree'][:12]}"
        )
        if receipt["log"]:
            say(f"  {'log':<8} {receipt['log']}")


@app.command()
def submit(
    branch: Annotated[
        str | None, typer.Argument(help="A branch; by default the one checked out here.", metavar="BRANCH")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Land on this branch (default: landing.target).", metavar="BRANCH")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="For the merge commit.", metavar="TEXT")] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Whose work it is; else the branch or the session tells.", metavar="ID")
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a branch into the queue, with its present head pinned."""
    if branch is None:
        branch = _current_branch()
    body = {"branch": branch, "target": target, "title": title, "session_id": session_id(), "task_id": task}
    answer = client().request("POST", "/merges", body)
    if as_json:
        emit(answer)
    elif answer["merge_id"] is None:
        say(f"Nothing to merge: the target has everything of {branch} already.")
    else:
        say(f"{answer['merge_id']}  {state(answer['state'])}  {answer['branch']} → {answer['target']}")


def _current_branch() -> str:
    """The branch that is checked out here, read from HEAD."""
    checkout = find_checkout(here())
    head = (checkout.git_dir / "HEAD").read_text(encoding="utf-8").strip() if checkout else ""
    if not head.startswith("ref: refs/heads/"):
        raise InvalidInput("No branch is checked out here.", remedy="Name the branch, or `git switch -c NAME` first.")
    return head.removeprefix("ref: refs/heads/")


@app.command()
def retry(
    merge_id: Id,
    follow_branch: Annotated[
        bool, typer.Option("--follow-branch", help="Take the branch's present head instead of the pinned one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Queue again what came back."""
    _acted("retry", merge_id, {"follow_branch": follow_branch}, as_json)


@app.command()
def cancel(merge_id: Id, as_json: Json = False) -> None:
    """Take a merge request out of the queue; the branch stays."""
    _acted("cancel", merge_id, None, as_json)


@app.command()
def dismiss(
    merge_id: Annotated[str, typer.Argument(help="A merge or task id, or its first characters.", metavar="ID")],
    as_json: Json = False,
) -> None:
    """Settle what failed: nothing more is to be done about it. The branch stays."""
    answer = client().request("POST", f"/merges/{segment(merge_id)}/dismiss")
    if as_json:
        emit(answer)
    else:
        say(f"{answer['merge_id'] or answer['task_id']}  {state(answer['outcome'])}")


def _acted(verb: str, merge_id: str, body: dict[str, Any] | None, as_json: bool) -> None:
    answer = client().request("POST", f"/merges/{segment(merge_id)}/{verb}", body)
    if as_json:
        emit(answer)
    else:
        say(f"{answer['merge_id']}  {state(answer['state'])}")


@app.command()
def approve(
    merge_id: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Show what needs your approval in a merge request, and approve it."""
    refuse_agents("Approving a merge", f"corral merge approve {merge_id}")
    review = client().request("GET", f"/merges/{segment(merge_id)}/approval")
    if not as_json:
        _show_review(review)
    if not yes and not confirm("Let this land once it is verified?", default=False):
        raise typer.Exit(1)
    _acted("approve", review["merge_id"], {"head_sha": review["head_sha"]}, as_json)


def _show_review(review: dict[str, Any]) -> None:
    for line in review["diff"].split("\n"):
        say(paint(visible(line), {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")))
    if review["truncated"]:
        say(paint("There is more of it than is shown here.", "yellow"))
    say(f"{paint('head', 'bold')}  {review['head_sha'][:12]}")
    for path in review["paths"]:
        say(f"{paint('path', 'bold')}  {one_line(path)}")
    if not review["paths"]:
        say("Nothing in it needs approval.")


@app.command()
def log(
    merge_id: Id,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows.")] = False,
    as_json: Json = False,
) -> None:
    """Show what its verification printed."""
    print_log(f"/merges/{segment(merge_id)}/log", follow=follow, as_json=as_json)
