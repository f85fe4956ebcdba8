"""Actions on a row: confirm with the person where necessary, ask the daemon, and show the outcome."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from rich.text import Text
from textual.screen import Screen

from corral.client.connection import Client, segment
from corral.config.paths import Project
from corral.core.errors import CorralError, DaemonUnreachable
from corral.faces.cli.terminal import worktree_shell
from corral.faces.cli.terminal.person import refuse_agents
from corral.faces.screen import actions as acts
from corral.faces.screen import lines, outside, panels
from corral.faces.screen.actions import Action, Call, RowSubject, call_of, subject_of
from corral.faces.screen.details import Details
from corral.faces.screen.dialogs import AROUND, MOST_WIDE, Form, Page
from corral.faces.screen.feed import describe
from corral.faces.screen.log_view import Follower, LogView, OutputGrew
from corral.faces.screen.text import Glyphs, Row, joined

_QUESTIONS = {
    "dismiss": "Dismiss this? Nothing more is done about it. Its branch and its log stay, and a retry takes this back.",
    "cancel": "Cancel this? A worker that runs is stopped, and its work is saved.",
    "skip": "Send this to the back of its queue? Every other request that waits now comes before it.",
    "revert": "Take back what this brought? The revert is queued, verified, and lands like any other request.",
    "end": "End this session? Its locks are released, and its task is given back.",
    "release": "Take this lock from its holder? They are told.",
}


class Acting(Screen[None]):
    """The part of the screen that acts.

    Args:
        requests: Answers what the screen asks for.
    """

    panel: str
    view: Row

    def __init__(self, project: Project, requests: Requests, glyphs: Glyphs) -> None:
        super().__init__()
        self.project, self.requests, self.glyphs = project, requests, glyphs
        self.following, self.followed_in = "", panels.NEEDS
        self._follower: Follower | None = None
        self._followed = 0

    @property
    @abstractmethod
    def row(self) -> Row | None:
        """The row that keys act on."""

    @property
    @abstractmethod
    def actions(self) -> list[Action]:
        """The actions for that row."""

    @property
    @abstractmethod
    def log_view(self) -> LogView:
        """The log."""

    @abstractmethod
    def action_show(self, name: str) -> None:
        """Go to a panel."""

    def tell(self, text: str, style: str = "plain") -> None:
        """Show a message in one line until the next one; empty: none."""
        line = self.query_one("#message", lines.Line)
        line.set_class(bool(text), "current")
        line.show_parts([(self.glyphs.cell(text, max(1, self.app.size.width - 2)), style)])

    def begin(self, action: Action, *, in_editor: bool = False) -> None:
        """Start an action on the row, or say that it is not possible."""
        row = self.row
        if row is None or action not in self.actions:
            if row is not None:
                self.tell(f"{action.key}: a row like this has no {action.label!r}. ? shows all keys.", "wait")
            return
        self._run(self._act(action, self.panel, row, in_editor=in_editor))

    def _run(self, work: Any) -> None:
        self.run_worker(work, exclusive=False, exit_on_error=True)

    async def _act(self, action: Action, panel: str, row: Row, *, in_editor: bool) -> None:
        subject = subject_of(panel, row)
        try:
            if action is acts.APPROVE:
                await self._approve(subject)
            elif action is acts.FOLLOW:
                self._follow(panel, subject, row)
            elif action is acts.OPEN:
                await self._open(subject, in_editor=in_editor)
            elif action is acts.ATTACH:
                await self._show_resume(subject)
            elif action is acts.MESSAGE:
                await self._write(subject)
            elif not action.asks or await self._agreed(action, subject):
                await self._call(call_of(action, panel, row))
        except (OSError, CorralError) as error:
            self._refused(error)

    async def _call(self, call: Call) -> None:
        await self.requests.ask("POST", call.path, call.body, timeout_s=120)
        self.tell(call.done, "good")

    def _refused(self, error: Exception) -> None:
        if isinstance(error, CorralError) and not isinstance(error, DaemonUnreachable):
            self.tell(f"{error.message} {error.remedy}", "bad")
        else:
            self.tell(describe(error), "bad")

    async def _agreed(self, action: Action, subject: RowSubject) -> bool:
        text = joined([(self.glyphs.lines(subject.title) + "\n\n", "bold"), (_QUESTIONS[action.label], "plain")])
        page = Page(
            f"{action.label.capitalize()}?", text, glyphs=self.glyphs, answers=[("y", action.label)], small=True
        )
        return await self.app.push_screen_wait(page) == "y"

    # -- details ------------------------------------------------------------------------------------------------

    def action_details(self) -> None:
        """Show all about the row; its keys work there too."""
        if self.row is not None:
            self._run(self._show_details(self.panel, self.row))

    async def _show_details(self, panel: str, row: Row) -> None:
        offered = {f"{action.key}": action for action in self.actions}
        try:
            text = await self._text(lambda details: details.page(panel, row))
        except (OSError, CorralError) as error:
            self._refused(error)
            return
        answers = [(key, action.label) for key, action in offered.items()]
        title = row["name"].capitalize() if panel == panels.NEEDS else subject_of(panel, row).title
        page = Page(title, text, glyphs=self.glyphs, answers=answers)
        answer = await self.app.push_screen_wait(page)
        if answer in offered:
            await self._act(offered[answer], panel, row, in_editor=False)

    async def _text(self, make: Callable[[Details], Any]) -> Any:
        width = min(MOST_WIDE, self.app.size.width) - AROUND
        return await self.requests.run_with(lambda client: make(Details(client, self.glyphs, width)))

    async def _approve(self, subject: RowSubject) -> None:
        name = subject.merge or ""
        refuse_agents("Approving a merge", f"corral merge approve {name[:8]}")
        review, text = await self._text(lambda details: details.approval(name))
        page = Page("Approve this change?", text, glyphs=self.glyphs, answers=[("y", "approve, so that it can land")])
        if await self.app.push_screen_wait(page) == "y":
            path = f"/merges/{segment(review['merge_id'])}/approve"
            await self._call(Call(path, {"head_sha": review["head_sha"]}, "Approved: it can land."))

    # -- outputs ------------------------------------------------------------------------------------------------

    @property
    def is_following(self) -> bool:
        """Whether the log shows an output instead of the events."""
        return self._follower is not None

    def _follow(self, panel: str, subject: RowSubject, row: Row) -> None:
        of_merge = panel == panels.MERGES or (
            panel == panels.NEEDS and row["kind"] != "failed_task" and subject.merge_id
        )
        path = (
            f"/merges/{segment(subject.merge or '')}/log"
            if of_merge
            else f"/tasks/{segment(subject.task_id or '')}/log"
        )
        self.stop_following()
        self._followed += 1
        self.following = self.glyphs.line(subject.title)[:40]
        self._follower = Follower(self.project, path, self._followed, self.post_message, readable=not of_merge)
        self.log_view.replace([])
        self.followed_in = panel
        self.action_show(panels.LOG)
        self._follower.start()

    def on_output_grew(self, message: OutputGrew) -> None:
        """Append what the followed output says."""
        if message.number == self._followed and self.is_following:
            self.log_view.add(message.lines)
        message.taken.set()

    def stop_following(self) -> None:
        """Show no output any more."""
        if self._follower is not None:
            self._follower.stop()
            self._follower, self.following = None, ""

    # -- outside ------------------------------------------------------------------------------------------------

    async def _open(self, subject: RowSubject, *, in_editor: bool) -> None:
        self.tell("Looking for its worktree …" if not self.glyphs.plain else "Looking for its worktree")
        place = await self.requests.run_with(lambda client: outside.find_place(client, subject))
        self.tell("")
        with self.app.suspend():
            worktree_shell.open_editor(place) if in_editor else worktree_shell.open_shell(place)
        self.app.refresh()
        if place.has_repair:
            await self._submit_again(place)
        elif place.request is not None:
            self.tell(f"The worktree stays: corral worktree remove {place.path.rpartition('/')[2]}")

    async def _submit_again(self, place: worktree_shell.Place) -> None:
        """Offer to queue what was committed in a worktree, in the place of the request that came back."""
        target = (place.request or {})["target"]
        text = joined([(f"{self.glyphs.line(place.branch or '')} has a new commit. Submit it to {target}?", "plain")])
        page = Page("Submit again?", text, glyphs=self.glyphs, answers=[("y", "submit")], small=True)
        if await self.app.push_screen_wait(page) == "y":
            await self.requests.run_with(lambda client: worktree_shell.submit_again(client, place))
            self.tell("Queued; it is merged and verified.", "good")

    async def _show_resume(self, subject: RowSubject) -> None:
        conversation = await self.requests.run_with(lambda client: outside.find_conversation(client, subject))
        text = Text.assemble(joined([("To resume this conversation with Claude Code:\n\n", "plain")]))
        text.append_text(joined([(self.glyphs.lines(conversation.line) + "\n", "bold")]))
        if conversation.is_alive:
            text.append_text(joined([("\nIt is alive: answer in its terminal, or end it first.", "wait")]))
        answers = [("c", "copy"), *([] if conversation.is_alive else [("y", "run it here")])]
        page = Page(conversation.agent_name, text, glyphs=self.glyphs, answers=answers, small=True)
        answer = await self.app.push_screen_wait(page)
        if answer == "c":
            self.app.copy_to_clipboard(conversation.line)
            self.tell("Copied, if the terminal allows it.")
        elif answer == "y":
            refuse_agents("Attaching to a conversation", conversation.line)
            argv, folder = await self.requests.run_with(lambda client: outside.prepare_resume(client, conversation))
            with self.app.suspend():
                worktree_shell.run(argv, folder)
            self.app.refresh()

    async def _write(self, subject: RowSubject) -> None:
        if subject.message is not None:
            form = Form(f"Reply to {subject.agent}: {subject.title}", [("Text", "")], glyphs=self.glyphs)
        else:
            to = subject.agent or ""
            if subject.session_id is not None:
                to = (await self.requests.ask("GET", f"/sessions/{segment(subject.session_id)}"))["agent_name"]
            elif subject.task_id is not None:
                to = next(
                    (attempt["agent"] for attempt in self.view["at_work"] if attempt["task_id"] == subject.task_id), to
                )
            form = Form("Send a message", [("To", to), ("Subject", ""), ("Text", "")], glyphs=self.glyphs)
        values = await self.app.push_screen_wait(form)
        if values is not None:
            to, about, text = values if len(values) == 3 else ("", "", values[0])
            await self._call(acts.letter(to, about, text, subject.message))


# -- Requests of the screen, sent by a thread of their own, so that keys are answered while the daemon works

Job = tuple[Callable[[Client], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Requests(threading.Thread):
    """Runs the requests to the daemon one after the other; ends with the program.

    Args:
        project: The daemon's project; a request of a person starts a daemon that is away.
    """

    def __init__(self, project: Project) -> None:
        super().__init__(name="requests", daemon=True)
        self._client = Client(project)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """One request; raises what the daemon refuses."""
        return await self.run_with(lambda client: client.request(method, path, body, **more))

    async def run_with(self, job: Callable[[Client], Any]) -> Any:
        """Run several requests as one job."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.put((job, future, loop))
        return await future

    def stop(self) -> None:
        """End once the requests so far are answered."""
        self._jobs.put(None)

    def run(self) -> None:
        """Work off the requests."""
        while (entry := self._jobs.get()) is not None:
            job, future, loop = entry
            try:
                answer, error = job(self._client), None
            except (OSError, CorralError) as refused:
                answer, error = None, refused
            try:
                loop.call_soon_threadsafe(_settle, future, answer, error)
            except RuntimeError:  # the screen was closed meanwhile
                break
        self._client.close()


def _settle(future: asyncio.Future[Any], answer: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
