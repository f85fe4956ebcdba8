"""``corral merge``."""

from __future__ import annotations

from typing import Annotated, Any

from corral.client.connection import segment
from corral.config.paths import find_checkout, find_project
from corral.core.errors import InvalidInput
from corral.core.instants import in_words, when_landed
from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal import worktree_shell
from corral.faces.cli.terminal.diff_view import STAT, show_diff, show_patch
from corral.faces.cli.terminal.options import argument, client, here, session_id
from corral.faces.cli.terminal.output import (
    echo,
    emit,
    fact,
    facts,
    for_programs,
    paint,
    printed,
    report,
    state,
    verification,
)
from corral.faces.cli.terminal.person import confirm, refuse_agents
from corral.faces.cli.terminal.tables import Column, age, table
from corral.work.tasks.cli.commands import print_log

app = Group("Merge queue: merge, verify, land.")
WIDTH = 11
"""Of the names in a detail."""
Id = Annotated[str, argument("A merge id, its first characters, or its task's id or number.", "ID", of="merge")]


@app.ask(
    "GET /merges",
    Field("state", "--status", "--state", "STATE"),
    Field("branch", "--branch", "NAME", of="branch"),
    name="list",
)
def listing(request: Request) -> None:
    """List merge requests in order of submission."""
    rows = request.listing()
    is_any_open = any(row["standing"] for row in rows)
    columns: list[Column] = [
        *(
            [("PLACE", lambda row: str(row["standing"]["position"]) if row["standing"] else "", 5)]
            if is_any_open
            else []
        ),
        ("TASK", "number", 7),
        ("OUTCOME", "outcome", 10),
        ("AGE", lambda row: age(row["created_at"]), 4),
        ("TITLE", "title", 70),
        *([("REASON", _why, 70)] if is_any_open or any(_why(row) for row in rows) else []),
        *([("LANDS IN", _lands_in, 9)] if any(_lands_in(row) for row in rows) else []),
        ("BRANCH", "branch", 40),
        *([("TARGET", "target", 20)] if len({row["target"] for row in rows}) > 1 else []),
        ("ID", lambda row: row["merge_id"][:8], 8),
    ]
    empty = "No such merge request." if request else "No merge requests. `corral merge submit` queues this branch."
    table(rows, columns, empty=empty)


def _why(row: dict[str, Any]) -> str:
    reason = row["reason"].splitlines()[0] if row["reason"] else None  # the whole of it is in its detail
    taken_back = f"taken back by {row['reverted_by'][:8]}" if row["reverted_by"] else ""
    return reason or (row["standing"]["waits_for"] if row["standing"] else taken_back)


def _lands_in(row: dict[str, Any]) -> str:
    expected_s = row["standing"]["expected_s"] if row["standing"] else None
    return f"~{in_words(expected_s)}" if expected_s else "" if expected_s is None else "overdue"


@app.ask("GET /merges/graph")
def graph(request: Request) -> None:
    """Draw the candidates of the queue: what each is built upon, and what is known of it.

    Each line is built upon the one above it (`*`), or is judged by itself upon the target's tip (`!`), or is not built yet (`.`).
    """
    graphs = request.send()
    if printed(graphs):
        return
    for drawn in graphs:
        echo(f"{paint(one_line(drawn['target']), 'bold')}  {(drawn['tip'] or '')[:12]}")
        for candidate in drawn["candidates"]:
            echo(_drawn(candidate))
    if not graphs:
        echo("Nothing waits to land.")


def _drawn(candidate: dict[str, Any]) -> str:
    how, sha = candidate["standing"], candidate["candidate_sha"]
    mark = "." if sha is None else "!" if candidate["is_alone"] else "*"
    where = f" in slot {how['slot']}" if how["slot"] is not None else ""
    lands = f", {lands}" if (lands := when_landed(how["expected_s"])) else ""
    verdict = state(candidate["verdict"]) + where
    return f"{mark} {how['position']:>3}  {(sha or '')[:8]:<8}  {one_line(candidate['title'])}: {verdict}{lands}"


@app.ask("GET /merges/{merge_id}")
def detail(request: Request, merge_id: Id) -> None:
    """Show everything about a merge request."""
    merge = request.send(merge_id=merge_id)
    if printed(merge):
        return
    echo(f"{paint(one_line(merge['title']), 'bold')}  {state(merge['outcome'])}")
    about = {"id": merge["merge_id"], "branch": f"{merge['branch']} → {merge['target']}"}
    about |= {"head": merge["head_sha"][:12], "reason": merge["reason"], "approved": merge["approved_sha"]}
    if how := merge["standing"]:
        lands = f", {lands}" if (lands := when_landed(how["expected_s"])) else ""
        about |= {"place": f"{how['position']}{lands}", "waits for": None if merge["reason"] else how["waits_for"]}
        about |= {"since": f"{age(how['waits_since'])} ago"}
        is_bypassed = merge["bypassed_sha"] == merge["head_sha"]  # once it has landed, its receipt says so
        about |= {"bypass": merge["bypass_reason"] if is_bypassed else None}
    if merge["landed_sha"]:
        about |= {"landed": merge["landed_sha"], "style": merge["style"]}
    facts({**about, "reverts": merge["reverts"], "reverted by": merge["reverted_by"]}, WIDTH)
    for conflict in merge["conflicts"] or []:
        fact("", f"{conflict['kind']}: {one_line(conflict['path'])}", WIDTH)
    receipt = merge["receipt"]
    if receipt:
        fact("verified", f"{verification(receipt)}  tree {receipt['tree'][:12]}", WIDTH)
        facts({"": receipt["reason"] if receipt["status"] == "bypassed" else None, "log": receipt["log"]}, WIDTH)


@app.ask("GET /merges/{merge_id}/diff", STAT)
def diff(request: Request, merge_id: Id) -> None:
    """Show what a merge request changes on its target."""
    show_diff(request, merge_id=merge_id)


@app.ask(
    "POST /merges",
    Field("branch", "BRANCH", of="branch", also=" (default: the current branch)", required=False),
    Field("target", "--target", "BRANCH", of="branch"),
    Field("title", "--title", "TEXT"),
    Field("task_id", "--task", "ID", of="task"),
    by="session_id",
    prints="work.merges.wire.Submitted",
)
def submit(request: Request) -> None:
    """Queue a branch for landing; its current head is pinned."""
    if "branch" not in request:
        request["branch"] = _current_branch()
    answer = request.send()
    if not printed(answer):
        _submitted(answer)


def _submitted(answer: dict[str, Any]) -> None:
    if answer["merge_id"] is None:
        echo(f"Nothing to merge: the target already contains {answer['branch']}.")
        return
    echo(f"{answer['merge_id']}  {state(answer['state'])}  {answer['branch']} → {answer['target']}")
    if answer.get("reason"):
        echo(one_line(answer["reason"].splitlines()[0]))


def _current_branch() -> str:
    """The current branch, read from HEAD."""
    checkout = find_checkout(here())
    head = (checkout.git_dir / "HEAD").read_text(encoding="utf-8").strip() if checkout else ""
    if not head.startswith("ref: refs/heads/"):
        raise InvalidInput(
            "No branch is checked out here.", remedy="Name the branch, or run `git switch -c NAME` first."
        )
    return head.removeprefix("ref: refs/heads/")


@app.command("open", prints="landing.api.Opened")
def open_(
    merge_id: Id,
    editor: Annotated[bool, Option("--editor", help="Open $VISUAL or $EDITOR instead of $SHELL.")] = False,
    print_only: Annotated[bool, Option("--print", help="Print the folder instead of opening it.")] = False,
) -> None:
    """Repair a merge request in a worktree of its own, where a conflict's merge is begun; a commit is submitted again.

    Your checkout stays as it is. When the shell or the editor ends, what you have committed there takes the request's place.
    """
    refuse_agents("Opening a worktree for a person", f"corral merge open {merge_id}")
    daemon = client()
    request = daemon.request("GET", f"/merges/{segment(merge_id)}")
    if for_programs():
        emit(daemon.request("POST", f"/merges/{segment(request['merge_id'])}/open", timeout_s=worktree_shell.ANSWER_S))
        return
    place = worktree_shell.open_request(daemon, request)
    if print_only:
        echo(place.path)
        return
    worktree_shell.open_editor(place) if editor else worktree_shell.open_shell(place)
    again, name = f"corral merge open {request['merge_id'][:8]}", place.path.rpartition("/")[2]
    if place.has_repair:
        _submitted(worktree_shell.submit_again(daemon, place))
    elif request["state"] in worktree_shell.RETURNED:
        echo(f"Nothing is committed there, so nothing was submitted. To go on: {again}")
    echo(f"The worktree stays; to remove it: corral worktree remove {name}")


@app.ask("POST /merges/{merge_id}/retry", Field("follow_branch", "--follow-branch"))
def retry(request: Request, merge_id: Id) -> None:
    """Queue a failed or conflicting merge request again."""
    _show_summary(request.send(merge_id=merge_id))


@app.ask("POST /merges/{merge_id}/cancel")
def cancel(request: Request, merge_id: Id) -> None:
    """Remove a merge request from the queue; the branch stays."""
    _show_summary(request.send(merge_id=merge_id))


@app.ask("POST /merges/{merge_id}/dismiss")
def dismiss(
    request: Request,
    merge_id: Annotated[
        str, argument("A merge or task id, its first characters, or a task's number.", "ID", of="open")
    ],
) -> None:
    """Dismiss a failed merge request or task. The branch stays."""
    answer = request.send(merge_id=merge_id)
    report(answer, f"{answer['merge_id'] or answer['task_id']}  {state(answer['outcome'])}")


def _show_summary(answer: dict[str, Any]) -> None:
    waits = f"\n{one_line(answer['reason'].splitlines()[0])}" if answer["reason"] else ""
    report(answer, f"{answer['merge_id']}  {state(answer['outcome'])}{waits}")


@app.command(prints="work.merges.wire.MergeSummary")
def approve(merge_id: Id, yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False) -> None:
    """Show what needs your approval in a merge request, and approve it."""
    refuse_agents("Approving a merge", f"corral merge approve {merge_id}")
    review = client().request("GET", f"/merges/{segment(merge_id)}/approval")
    if not for_programs():
        _show_review(review)
    if not yes and not confirm("Approve this change, so that it can land?", default=False):
        raise Exit(1)
    path, body = f"/merges/{segment(review['merge_id'])}/approve", {"head_sha": review["head_sha"]}
    answer = client().request("POST", path, body)
    report(answer, f"{answer['merge_id']}  approved: it is verified, and lands if that passes")


@app.command(prints="landing.api.Reverted")
def revert(merge_id: Id) -> None:
    """Queue the revert of what a landed merge request brought; it is verified and lands like any other."""
    answer = client().request(
        "POST", f"/merges/{segment(merge_id)}/revert", {"session_id": session_id()}, timeout_s=120
    )
    if printed(answer):
        return
    _submitted(answer)
    if answer["conflicts"]:
        paths = ", ".join(f"{item['path']} ({item['kind']})" for item in answer["conflicts"])
        echo(f"What came since changed the same: {one_line(paths)}. It comes back as a conflict.")
        echo(f"To resolve it, and submit it again: corral merge open {answer['merge_id'][:8]}")
    if answer["dependents"]:
        echo("These tasks were built on what it takes back; they stay as they are:")
        columns: list[Column] = [("TASK", "number", 7), ("OUTCOME", "outcome", 15), ("TITLE", "title", 70)]
        table(answer["dependents"], columns, empty="")


@app.command(prints="work.merges.wire.MergeSummary")
def skip(merge_id: Id) -> None:
    """Send a merge request to the back of its queue, so that the others pass it."""
    refuse_agents("Letting others pass a merge request", f"corral merge skip {merge_id}")
    _show_summary(client().request("POST", f"/merges/{segment(merge_id)}/skip", {}))


@app.ask("POST /merges/{merge_id}/bypass", Field("reason", "--reason", "TEXT"), "yes")
def bypass(
    request: Request, merge_id: Id, yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False
) -> None:
    """Land a merge request without a verification; it is shown as bypassed, never as passed."""
    refuse_agents("Landing without a verification", f"corral merge bypass {merge_id} --reason TEXT")
    merge = client().request("GET", f"/merges/{segment(merge_id)}")
    if not for_programs():
        echo(f"{paint(one_line(merge['title']), 'bold')}  {merge['branch']} → {merge['target']}")
        facts({"head": merge["head_sha"][:12], "reason": merge["reason"]})
        echo(
            f"Nothing verifies it before it is on {merge['target']}. Look at it: corral merge diff {merge['merge_id'][:8]}"
        )
    if not yes and not confirm("Land it without a verification?", default=False):
        raise Exit(1)
    request["head_sha"] = merge["head_sha"]
    _show_summary(request.send(merge_id=merge["merge_id"]))


_TARGET = Field("target", "TARGET", of="branch")


@app.ask("POST /targets/freeze", _TARGET, Field("reason", "--reason", "TEXT"))
def freeze(request: Request) -> None:
    """Let nothing land on a branch until `corral merge thaw`; what waits is verified all the same."""
    refuse_agents("Freezing a target", f"corral merge freeze {request['target']} --reason TEXT")
    answer = request.send()
    landing = ", ".join(merge_id[:8] for merge_id in answer["landing"])
    also = f" Landing at this moment, and not held any more: {landing}." if landing else ""
    report(answer, f"{answer['target']} is frozen. To go on: corral merge thaw {answer['target']}{also}")


@app.ask("POST /targets/thaw", _TARGET)
def thaw(request: Request) -> None:
    """Let work land on a frozen branch again; verify one again that a direct commit made red."""
    refuse_agents("Thawing a target", f"corral merge thaw {request['target']}")
    answer = request.send()
    done = f"{answer['target']} is not frozen any more." if answer["was_frozen"] else ""
    again = f"{answer['target']} is red, and is verified again." if answer["verifies"] else ""
    report(answer, " ".join(filter(None, (done, again))))


@app.ask("POST /rewinds/accept", Field("target", "TARGET", of="branch"), "yes", name="accept-rewind")
def accept_rewind(request: Request, yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False) -> None:
    """Accept that a branch was rewound and lacks what had landed on it; what waits for that goes on."""
    target = request["target"]
    refuse_agents("Accepting that landed work is gone", f"corral merge accept-rewind {target}")
    lost = [row for row in client().request("GET", "/rewinds") if row["target"] == target]
    if not for_programs():
        for row in lost:
            echo(one_line(row["what"]))
            for lost_request in row["requests"]:
                echo(f"  {lost_request['merge_id'][:8]}  {one_line(lost_request['title'])}")
            echo(paint(f"Its commits stay on a ref of Corral's: {row['lost_sha']}", "dim"))
    if lost and not yes and not confirm("Accept that this is gone? Tasks that wait for it then start.", default=False):
        raise Exit(1)
    request["lost"] = [row["lost_sha"] for row in lost] or ["none"]
    answer = request.send()
    report(answer, f"Accepted: {target} stays as it is.")


def _show_review(review: dict[str, Any]) -> None:
    show_patch(review["diff"])
    if review["truncated"]:
        echo(paint("The list is incomplete: the change is larger than shown here.", "yellow"))
    echo(f"{paint('head', 'bold')}  {review['head_sha'][:12]}")
    for path in review["paths"]:
        echo(f"{paint('path', 'bold')}  {one_line(path)}")
    echo(one_line(review["reason"]))


@app.command("verify-receipt", prints="landing.api.ReceiptChecked")
def verify_receipt(
    commit: Annotated[str, argument("A commit that has landed, in any clone.", "COMMIT", of="branch")],
) -> None:
    """Hold the receipt of a landed commit, a git note, against this clone. Needs no daemon.

    The note has to fit the commit, its tree, and the commit that was verified. Who wrote it is not checked.
    """
    from corral.git.land import receipt_notes
    from corral.git.process.command import Git

    project, checkout = find_project(here(), initialised=False), find_checkout(here())
    checked = receipt_notes.check(Git(checkout.git_dir if checkout else project.common_dir), commit)
    if for_programs():
        emit(
            {name: getattr(checked, name) for name in ("commit", "tree", "status", "is_proven", "problems", "receipt")}
        )
    else:
        _show_receipt(checked.commit, checked.status, checked.problems, checked.receipt)
    if not checked.is_proven:
        raise Exit(1)


def _show_receipt(commit: str, status: str, problems: list[str], receipt: dict[str, Any]) -> None:
    echo(f"{commit[:12]}  {state(one_line(status))}" + ("" if problems else "  The receipt fits this commit."))
    verified = receipt.get("verified")
    by = str(verified.get("commit")) if isinstance(verified, dict) else ""
    about = {"covered by": by[:12] if by != commit else None}
    for name in ("target", "style", "commands", "tests", "fingerprint", "at", "merge", "task"):
        value = receipt.get(name)
        about[name] = "; ".join(map(str, value)) if isinstance(value, list) else value and str(value)
    facts({name: one_line(value) if value else None for name, value in about.items()}, WIDTH)
    for problem in problems:
        echo(paint(one_line(problem), "red"))


@app.ask("GET /merges/flakes", Field("target", "--target", "BRANCH", of="branch"))
def flakes(request: Request) -> None:
    """List tests that failed and then passed on one tree."""
    rows = request.send()
    columns: list[Column] = [
        ("TEST", lambda row: row["test"] or "(not told)", 70),
        ("TIMES", "times", 5),
        ("FIRST", lambda row: row["first_at"][:19], 19),
        ("LAST", lambda row: row["last_at"][:19], 19),
        *([("TARGET", "target", 20)] if len({row["target"] for row in rows}) > 1 else []),
        ("LOG", lambda row: row["occurrences"][0]["red_log"], 90),
    ]
    table(rows, columns, empty="No test was red and then green on one tree.")


@app.ask("GET /merges/{merge_id}/log", "follow", Field("run", "--run", "RUN"), prints="landing.api.MergeLog")
def log(
    request: Request, merge_id: Id, follow: Annotated[bool, Option("--follow", "-f", help="Follow the log.")] = False
) -> None:
    """Show the output of the verification that decided a merge request."""
    print_log(request, f"/merges/{segment(merge_id)}/log", follow=follow)


@app.ask("GET /merges/{merge_id}/runs")
def runs(request: Request, merge_id: Id) -> None:
    """List the verifications that ran for a merge request."""
    rows = request.send(merge_id=merge_id)
    columns: list[Column] = [
        ("RUN", "number", 4),
        ("OF", "role", 10),
        ("COMMIT", lambda row: (row["commit_sha"] or "")[:12], 12),
        ("RESULT", "status", 10),
        ("EXIT", "exit_code", 5),
        ("AT", lambda row: (row["ended_at"] or row["started_at"] or "")[:19], 19),
        ("DECIDED", lambda row: "yes" if row["decided"] else "", 7),
        ("LOG", "log", 90),
    ]
    table(rows, columns, empty="No verification ran for it yet.")
