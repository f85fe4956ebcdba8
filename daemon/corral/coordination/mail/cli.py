"""``corral message``."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated, Any

from corral.client.connection import Client, segment
from corral.core.errors import InvalidInput
from corral.core.states import Importance, MailWay
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.options import argument, client, option, session_id
from corral.faces.cli.terminal.output import echo, moment, paint, printed, report, state
from corral.faces.cli.terminal.tables import Column, table

app = Group("Mail between sessions, and with you.")
ROUND_S = 20.0
"""Duration of one long poll for new mail, seconds."""
Row = dict[str, Any]
Message = Annotated[str, argument("A message number or id.", "MESSAGE", of="message")]
Body = Annotated[str | None, argument("The text; `-` or nothing reads it from stdin.", "TEXT")]
Cc = Annotated[list[str] | None, option("--cc", "Add a recipient in copy; repeatable.", "AGENT")]
Bcc = Annotated[list[str] | None, option("--bcc", "Add a blind-copy recipient; repeatable.", "AGENT")]
Attach = Annotated[list[str] | None, option("--attach", "A path in the repository; repeatable.", "PATH")]
Key = Annotated[
    str | None,
    option("--idempotency-key", "Idempotency key: the message is sent once per key.", "KEY"),
]


@app.command(prints="coordination.mail.api.Sent")
def send(
    to: Annotated[str, argument("Recipients: agents, roles or `all`, separated by commas.", "AGENT", of="recipient")],
    subject: Annotated[str, argument("Subject.", "SUBJECT")],
    text: Body = None,
    cc: Cc = None,
    bcc: Bcc = None,
    importance: Annotated[
        Importance,
        option("--importance", "Importance: low, normal, high or urgent (holds the reader's next Stop once).", "HOW"),
    ] = Importance.NORMAL,
    acknowledge: Annotated[bool, Option("--ack", help="Request an acknowledgement.")] = False,
    thread: Annotated[str | None, option("--thread", "Thread of the message.", "ID", of="thread")] = None,
    attach: Attach = None,
    key: Key = None,
) -> None:
    """Send a message. A session reads it at its next step."""
    names = [name.strip() for name in to.split(",") if name.strip()]
    how = {"subject": subject, "importance": importance.value, "ack_required": acknowledge, "thread_id": thread}
    _send("/messages", {**_letter(names, text, cc, bcc, attach, key), **how})


@app.command(prints="coordination.mail.api.Sent")
def reply(
    message: Message,
    text: Body = None,
    to: Annotated[
        list[str] | None,
        option("--to", "Send to this recipient instead of the sender; repeatable.", "AGENT", of="recipient"),
    ] = None,
    cc: Cc = None,
    bcc: Bcc = None,
    attach: Attach = None,
    key: Key = None,
) -> None:
    """Reply to a message, in its thread."""
    _send(f"/messages/{segment(message)}/reply", _letter(to or [], text, cc, bcc, attach, key))


def _letter(
    to: list[str],
    text: str | None,
    cc: list[str] | None,
    bcc: list[str] | None,
    attach: list[str] | None,
    key: str | None,
) -> dict[str, Any]:
    return {
        "session_id": session_id(),
        "to": to,
        "cc": cc or [],
        "bcc": bcc or [],
        "body": _read_body(text),
        "attachments": attach or [],
        "idempotency_key": key or str(uuid.uuid4()),  # the client repeats the call when an answer is lost
    }


def _read_body(text: str | None) -> str:
    if text not in (None, "-"):
        return str(text)
    if sys.stdin.isatty():
        raise InvalidInput("The message has no text.", remedy="Pass the text as an argument or on standard input.")
    return sys.stdin.read()


def _send(path: str, letter: dict[str, Any]) -> None:
    answer = client().request("POST", path, letter)
    if printed(answer):
        return
    names = ", ".join(recipient["name"] for recipient in answer["recipients"])
    echo(f"sent {answer['id']} to {one_line(names)}")
    if answer["bounced"]:
        echo(f"offline, delivered when they return: {one_line(', '.join(answer['bounced']))}")


@app.command(prints="coordination.mail.api.InboxMessage[]")
def inbox(
    agent: Annotated[
        str | None, option("--agent", "Agent whose mail to show (default: you).", "AGENT", of="session")
    ] = None,
    everyone: Annotated[bool, Option("--all", help="Show the mail of the whole project.")] = False,
    urgent: Annotated[bool, Option("--urgent", help="Only high and urgent messages.")] = False,
    unread: Annotated[bool, Option("--unread", help="Only unread messages.")] = False,
    overdue: Annotated[
        bool, Option("--overdue", help="Only messages whose acknowledgement is over 30 minutes late.")
    ] = False,
    since: Annotated[str | None, option("--since", "Only messages after this instant.", "TIME")] = None,
    limit: Annotated[int, option("--limit", "Maximum number of messages.", "N", min=1, max=1000)] = 20,
    follow: Annotated[bool, Option("--follow", "-f", help="Print new messages until interrupted.")] = False,
) -> None:
    """Show an inbox, newest first. With --follow: oldest first, then new messages as they arrive."""
    query = {
        "session_id": session_id(),
        "agent": agent,
        "everyone": everyone or None,
        "urgent_only": urgent or None,
        "unread_only": unread or None,
        "ack_overdue_only": overdue or None,
        "since_ts": since,
        "limit": limit,
    }
    speaker = client()
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


@app.command(prints="coordination.mail.api.MessageDetail")
def show(message: Message) -> None:
    """Show a message and its delivery state at each recipient."""
    row = client().request("GET", f"/messages/{segment(message)}")
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


@app.command(prints="coordination.mail.api.Read")
def read(message: Message) -> None:
    """Mark a message to you as read."""
    _marked("read", message)


@app.command(prints="coordination.mail.api.Acknowledged")
def ack(message: Message) -> None:
    """Acknowledge a message to you and mark it as read."""
    _marked("acknowledge", message)


def _marked(verb: str, message: str) -> None:
    answer = client().request("POST", f"/messages/{segment(message)}/{verb}", {"session_id": session_id()})
    report(answer, f"{answer['id']}: {state(answer['state'])}")


@app.command(prints="coordination.mail.api.Contact[]")
def contacts(
    agent: Annotated[
        str | None, option("--agent", "Agent whose contacts to show (default: you).", "AGENT", of="session")
    ] = None,
) -> None:
    """List mail contacts, latest first. Anybody may write to anybody."""
    rows = client().listing("/contacts", {"session_id": session_id(), "agent": agent})
    columns: list[Column] = [
        ("AGENT", "to", 24),
        ("HERE", lambda row: "yes" if row["active"] else "no", 4),
        ("LAST (UTC)", lambda row: moment(row["updated_at"]), 19),
    ]
    table(rows, columns, empty="No contacts.")


@app.command(prints="coordination.mail.api.Message[]")
def search(
    words: Annotated[list[str], argument("Words to search for; all must occur.", "WORD")],
    agent: Annotated[
        str | None, option("--agent", "Only messages from or to this agent.", "AGENT", of="session")
    ] = None,
    limit: Annotated[int, option("--limit", "Maximum number of messages.", "N", min=1, max=200)] = 20,
) -> None:
    """Search messages by words."""
    query = {"q": " ".join(words), "agent": agent, "limit": limit}
    rows = client().request("GET", "/messages/search", query=query)
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
