"""``corral message``."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated, Any

from corral.client.connection import Client, segment
from corral.core.errors import InvalidInput
from corral.core.states import Importance, MailWay
from corral.core.visible import one_line, visible
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.options import argument, client
from corral.faces.cli.terminal.output import echo, moment, paint, printed, report, state
from corral.faces.cli.terminal.tables import Column, table

app = Group("Mail between sessions, and with you.")
ROUND_S = 20.0
"""Duration of one long poll for new mail, seconds."""
Row = dict[str, Any]
Message = Annotated[str, argument("A message number or id.", "MESSAGE", of="message")]
Body = Annotated[str | None, argument("The text; `-` or nothing reads it from stdin.", "TEXT")]
_COPIES = (Field("cc", "--cc", "AGENT"), Field("bcc", "--bcc", "AGENT"))
_REST = (Field("attachments", "--attach", "PATH"), Field("idempotency_key", "--idempotency-key", "KEY"))


@app.ask(
    "POST /messages",
    "to",
    Field("subject", "SUBJECT"),
    "text",
    *_COPIES,
    Field("importance", "--importance", "HOW"),
    Field("ack_required", "--ack"),
    Field("thread_id", "--thread", "ID", of="thread"),
    *_REST,
    by="session_id",
)
def send(
    request: Request,
    to: Annotated[str, argument("Recipients: agents, roles or `all`, separated by commas.", "AGENT", of="recipient")],
    text: Body = None,
) -> None:
    """Send a message. A session reads it at its next step."""
    request["to"] = [name.strip() for name in to.split(",") if name.strip()]
    _send(request, text)


@app.ask(
    "POST /messages/{message_id}/reply", Field("to", "--to", "AGENT", of="recipient"), *_COPIES, *_REST, by="session_id"
)
def reply(request: Request, message: Message, text: Body = None) -> None:
    """Reply to a message, in its thread."""
    _send(request, text, message_id=message)


def _read_body(text: str | None) -> str:
    if text not in (None, "-"):
        return str(text)
    if sys.stdin.isatty():
        raise InvalidInput("The message has no text.", remedy="Pass the text as an argument or on standard input.")
    return sys.stdin.read()


def _send(letter: Request, text: str | None, **in_path: Any) -> None:
    letter["body"] = _read_body(text)
    # The client repeats the call when an answer is lost.
    letter["idempotency_key"] = letter["idempotency_key"] or str(uuid.uuid4())
    answer = letter.send(**in_path)
    if printed(answer):
        return
    names = ", ".join(recipient["name"] for recipient in answer["recipients"])
    echo(f"sent {answer['id']} to {one_line(names)}")
    if answer["bounced"]:
        echo(f"offline, delivered when they return: {one_line(', '.join(answer['bounced']))}")


@app.ask(
    "GET /messages",
    Field("agent", "--agent", "AGENT", of="session"),
    Field("everyone", "--all"),
    Field("urgent_only", "--urgent"),
    Field("unread_only", "--unread"),
    Field("ack_overdue_only", "--overdue"),
    Field("since_ts", "--since", "TIME"),
    Field("limit", "--limit", "N"),
    "follow",
    by="session_id",
)
def inbox(
    request: Request,
    follow: Annotated[bool, Option("--follow", "-f", help="Print new messages until interrupted.")] = False,
) -> None:
    """Show an inbox, newest first. With --follow: oldest first, then new messages as they arrive."""
    speaker, query = client(), {**request, "limit": request["limit"]}
    rows = _mail(speaker, query)
    if follow:
        _follow(speaker, query, rows)
    columns: list[Column] = [
        ("ID", "id", 8), ("SENT (UTC)", _instant, 19), ("FROM", "from", 24), ("TO", "to", 24),
        ("HOW", "importance", 8), ("STATE", "state", 12), ("SUBJECT", "subject", 60),
    ]  # fmt: skip
    table(rows, columns, empty="No mail.")


def _mail(speaker: Client, query: Row, timeout_s: float = 30) -> list[Row]:
    """Fetch up to ``limit`` messages, page by page."""
    rows: list[Row] = []
    while page := speaker.request("GET", "/messages", query=query, timeout_s=timeout_s, is_poll="wait_s" in query):
        rows += page
        if len(rows) >= query["limit"]:
            break
        query = {**query, "before": rows[-1]["id"], "before_to": rows[-1]["to"], "wait_s": None}
    return rows[: query["limit"]]


def _follow(speaker: Client, query: Row, rows: list[Row]) -> None:
    """Long-poll for new messages."""
    last = 0
    while True:
        for row in reversed(rows):
            last = max(last, row["id"])
            if not printed(row, indent=None):
                _show(row)
            sys.stdout.flush()
        news = {**query, "after": last, "limit": 1000, "wait_s": ROUND_S}
        rows = _mail(speaker, news, ROUND_S + 15)


@app.ask("GET /messages/{message_id}")
def show(request: Request, message: Message) -> None:
    """Show a message and its delivery state at each recipient."""
    row = request.send(message_id=message)
    if not printed(row):
        _show(row)


@app.command(prints="coordination.mail.api.MessageDetail[]")
def thread(identifier: Annotated[str, argument("A thread, or one of its messages.", "THREAD", of="thread")]) -> None:
    """Show a thread, oldest message first."""
    parts = [*client().parts(f"/messages/threads/{segment(identifier)}")]  # the API returns the newest first
    rows = [row for part in parts[::-1] for row in part]
    if printed(rows):
        return
    for row in rows:
        _show(row)


@app.ask("POST /messages/{message_id}/read", by="session_id")
def read(request: Request, message: Message) -> None:
    """Mark a message to you as read."""
    _marked(request, message)


@app.ask("POST /messages/{message_id}/acknowledge", by="session_id")
def ack(request: Request, message: Message) -> None:
    """Acknowledge a message to you and mark it as read."""
    _marked(request, message)


def _marked(request: Request, message: str) -> None:
    answer = request.send(message_id=message)
    report(answer, f"{answer['id']}: {state(answer['state'])}")


@app.ask("GET /contacts", Field("agent", "--agent", "AGENT", of="session"), by="session_id")
def contacts(request: Request) -> None:
    """List mail contacts, latest first. Anybody may write to anybody."""
    rows = request.listing()
    columns: list[Column] = [
        ("AGENT", "to", 24),
        ("HERE", lambda row: "yes" if row["active"] else "no", 4),
        ("LAST (UTC)", lambda row: moment(row["updated_at"]), 19),
    ]
    table(rows, columns, empty="No contacts.")


@app.ask(
    "GET /messages/search",
    Field("q", "WORD", multiple=True, read=" ".join),
    Field("agent", "--agent", "AGENT", of="session"),
    Field("limit", "--limit", "N"),
)
def search(request: Request) -> None:
    """Search messages by words."""
    rows = request.send()
    columns: list[Column] = [
        ("ID", "id", 8), ("SENT (UTC)", _instant, 19), ("FROM", "from", 24), ("THREAD", "thread_id", 36),
        ("SUBJECT", "subject", 60),
    ]  # fmt: skip
    table(rows, columns, empty="No message contains all these words.")


def _instant(row: Row) -> str:
    return moment(str(row["created_at"]))


_WAYS = {
    MailWay.HOOK: "with a hook",
    MailWay.WAKE: "woke it",
    MailWay.TURN: "into its turn",
    MailWay.PROMPT: "as its prompt",
    MailWay.RUNNER: "by its runner",
    MailWay.TOOL: "fetched",
}


def _receipt(recipient: Row) -> str:
    """Where a message stands at a recipient, and which way it came there."""
    way = recipient.get("way")
    return state(recipient["state"]) + (f", {_WAYS.get(way, way)}" if way else "")


def _show(row: Row) -> None:
    """Print a message; every line of its text is indented, so that none looks like output of Corral."""
    to = row.get("recipients") or [{"name": row.get("to", ""), "state": row.get("state", ""), "way": row.get("way")}]
    marks = [] if row["importance"] == Importance.NORMAL else [row["importance"]]
    marks += ["acknowledge"] if row["ack_required"] else []
    echo(paint(f"{row['id']}  {one_line(row['subject'])}" + (f"  [{', '.join(marks)}]" if marks else ""), "bold"))
    echo(f"  {one_line(row['from'])}, {_instant(row)} UTC, thread {row['thread_id']}")
    echo("  to " + ", ".join(f"{one_line(recipient['name'])} ({_receipt(recipient)})" for recipient in to))
    if row["attachments"]:
        echo(f"  with {one_line(', '.join(row['attachments']))}")
    for line in visible(row["body"]).split("\n"):
        echo(f"    {line}")
    echo("")
