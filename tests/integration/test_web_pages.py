"""The pages of the web view: what they show, what they do, and that whatever comes from outside is text in them."""

from __future__ import annotations

import html
import http.client
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, commit_all, git
from tests.support.browsing import Visitor, visitor
from tests.support.coordinated import Coordinated, eventually

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe \x1b[31mred\x1b]0;title\x07 {{7*7}} \"'&"
FIRST, SECOND = "5e1d0000-0000-4000-8000-000000000001", "5e1d0000-0000-4000-8000-000000000002"
PAGE_TAGS = {
    "html", "head", "meta", "title", "link", "script", "body", "a", "header", "div", "bdi", "nav", "span", "p",
    "main", "footer", "form", "input", "button", "h1", "h2", "section", "ol", "ul", "li", "table", "thead", "tbody",
    "tr", "th", "td", "time", "code", "dl", "dt", "dd", "meter", "aside", "b", "br", "pre", "details", "summary",
    "label", "select", "option", "textarea", "dialog", "kbd", "svg", "g", "rect", "text", "path", "line", "figure", "figcaption",
}  # fmt: skip


class _Read(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _is_inert(text: str) -> None:
    """Nothing of the page was made by what it shows: no other element, no handler, no foreign address, no hidden character."""
    for tag, attributes in _Read(text).tags:
        assert tag in PAGE_TAGS, tag
        assert not [name for name in attributes if name.startswith("on") or name == "style"], attributes
        for name in ("href", "src", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes
    scripts = [attrs for tag, attrs in _Read(text).tags if tag == "script"]
    own = [{"type": "module", "src": f"/static/{name}.mjs"} for name in ("live", "keys")]
    assert all(script in own for script in scripts), scripts
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)


def _pages(house: Coordinated) -> list[str]:
    tasks = [row["task_id"] for row in house.ask("GET", "/tasks")]
    requests = [row["merge_id"] for row in house.ask("GET", "/merges")]
    sessions = [row["session_id"] for row in house.ask("GET", "/sessions")]
    return [
        "/", "/tasks", "/tasks?show=failed", "/queue", "/sessions", "/sessions?show=all", "/timeline", "/timeline?span=7d",
        *(f"/tasks/{task}" for task in tasks), *(f"/tasks/{task}/diff" for task in tasks),
        *(f"/merges/{request}" for request in requests), *(f"/merges/{request}/diff" for request in requests),
        *(f"/sessions/{session}" for session in sessions), f"/tasks/{tasks[0]}/dismiss",
    ]  # fmt: skip


@pytest.mark.req("FR-MONITOR-002", "X11")
def test_everything_is_shown_what_is_hostile_is_text_and_a_person_settles_what_needs_them(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\nsupervisor: {max_agents: 2}\n")
    file = house.root / "evil.txt"
    file.write_text(f"{HOSTILE}\n")
    dead = house.submit(HOSTILE, f"cat '{file}'; cat '{file}' >&2; exit 7", "--description", HOSTILE)
    asks = house.submit("Teach it", f"cat '{file}' > CLAUDE.md")
    git(house.root, "checkout", "-q", "-b", "x<img-src=x>&\u202ey")
    commit(house.root, {"a<b>.txt": f"{HOSTILE}\n"}, HOSTILE)
    git(house.root, "checkout", "-q", "main")
    house.run("merge", "submit", "x<img-src=x>&\u202ey", "--title", HOSTILE.replace("\x1b", "").replace("\x07", ""))
    for session in (FIRST, SECOND):
        house.hook("SessionStart", session, source="startup")
    house.hook("UserPromptSubmit", FIRST, prompt=HOSTILE)
    house.run("lock", "acquire", "src/<b>.py", "--session", FIRST, check=False)
    house.edit(FIRST, "src/a.py")
    name = house.ask("GET", f"/sessions/{FIRST}")["agent_name"]
    house.run("message", "send", name, "--subject", "<b>bold</b>", HOSTILE, check=False)
    house.run("wait", dead, "--timeout", "40", check=False)
    eventually(lambda: house.ask("GET", f"/tasks/{asks}/detail")["outcome"] == "held")
    eventually(lambda: (house.root / ".corral/state/evidence" / dead / "summary.md").exists())

    person = visitor(house)
    for path in _pages(house):
        answer = person.get(path)
        assert answer.status == 200, (path, answer.text[-600:])
        _is_inert(answer.text)
    first = person.get("/").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in first
    assert "\\u202egnp.exe" in first
    assert "{{7*7}}" in first
    task = person.get(f"/tasks/{dead}").text
    assert all(
        part in task for part in ("command_failed", "Log of attempt 1", "Retry", "Dismiss", "task.dead", "Its summary")
    )
    assert "+&lt;script&gt;alert(1)" in person.get(f"/tasks/{asks}/diff").text

    # settled with forms alone: what a browser without a script sends
    status = house.ask("GET", "/status")
    merge = next(need["ids"]["merge_id"] for need in status["needs_you"] if need["kind"] == "merge_approval")
    asked = person.get(f"/merges/{merge}/approve")
    head = re.search(r'name="head_sha" value="([0-9a-f]{40})"', asked.text)
    assert head
    assert "It changes what `landing.approve_paths` names: CLAUDE.md." in asked.text
    assert f"/tasks/{asks}" in person.get("/tasks?show=held").text
    assert f"/tasks/{asks}" not in person.get("/tasks?show=red").text
    assert person.post(f"/merges/{merge}/approve", token=asked.token, confirmed="yes", head_sha="f" * 40).status == 409
    assert person.post(f"/merges/{merge}/approve", token=asked.token, confirmed="yes", head_sha="x").status == 422
    good: dict[str, Any] = {"token": asked.token, "confirmed": "yes", "back": f"/merges/{merge}"}
    done = person.post(f"/merges/{merge}/approve", head_sha=head.group(1), **good)
    assert (done.status, done.headers["location"]) == (303, f"/merges/{merge}?done=approve")
    eventually(lambda: house.ask("GET", f"/tasks/{asks}/detail")["outcome"] == "landed")
    assert person.post(f"/tasks/{dead}/dismiss", token=asked.token, confirmed="yes").status == 303
    assert house.ask("GET", f"/tasks/{dead}/detail")["outcome"] == "dismissed"
    assert person.post(f"/tasks/{dead}/retry", token=asked.token).status == 303
    lock = next(lock for lock in house.ask("GET", "/locks") if lock["file_path"] == "src/a.py")
    assert "src/a.py" in person.get(f"/locks/{lock['lock_id']}/release").text
    assert person.post(f"/locks/{lock['lock_id']}/release", token=asked.token, confirmed="yes").status == 303
    assert not [lock for lock in house.ask("GET", "/locks") if lock["file_path"] == "src/a.py"]
    gone = person.post(f"/locks/{lock['lock_id']}/release", token=asked.token, confirmed="yes")
    assert (gone.status, "no such lock" in gone.text) == (404, True)
    letter: dict[str, Any] = {"token": asked.token, "body": "Please stop.", "subject": "", "key": "k1"}
    assert person.post(f"/sessions/{name}/message", **letter).status == 303
    assert person.post(f"/sessions/{name}/message", **letter).status == 303  # sent twice by an impatient finger
    assert [message["body"] for message in house.json("message", "inbox", "--agent", name)].count("Please stop.") == 1
    assert person.post(f"/sessions/{name}/message", token=asked.token, body=" ").status == 422
    later = house.submit("Later", "true", "--wait-for", house.submit("Long", "sleep 600"))
    assert person.post(f"/tasks/{later}/reprioritize", token=asked.token, priority="9").status == 303
    assert house.ask("GET", f"/tasks/{later}/detail")["priority"] == 9
    assert person.post(f"/tasks/{later}/reprioritize", token=asked.token, priority="99").status == 422
    assert person.post(f"/tasks/{later}/explode", token=asked.token).status == 404
    for path in (
        "/tasks/nothing",
        "/merges/nothing",
        "/sessions/nothing",
        "/nothing",
        "/static/../sessions.py",
        "/tasks?show=x",
    ):
        answer = person.get(path)
        assert answer.status in (404, 422), path
        _is_inert(answer.text)


def _stream(person: Visitor, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", person.port, timeout=20)
    own = f"127.0.0.1:{person.port}"
    connection.request("GET", path, headers={"Host": own, "Cookie": person.cookie, "Connection": "close"})
    return connection.getresponse()  # which now has the socket, and closes it


def _until(stream: http.client.HTTPResponse, wanted: str) -> str:
    read = ""
    while wanted not in read:
        line = stream.readline()
        assert line, f"the stream ended: {read}"
        read += line.decode()
    return read


@pytest.mark.req("FR-MONITOR-002", "X17")
def test_changes_and_logs_come_as_a_stream_whose_number_is_bounded_and_a_huge_log_is_served_as_its_tail(
    coordinate: Callable[..., Coordinated],
) -> None:
    from corral.faces.web.live import MOST_STREAMS

    house = coordinate()
    go = house.root / "go"
    task = house.submit("Talk", f"echo begun; until [ -e '{go}' ]; do sleep 0.1; done; echo '<b>more</b>'; sleep 600")
    person = visitor(house)
    log = house.root / ".corral/logs/tasks" / task / "1.log"
    eventually(lambda: log.exists() and b"begun" in log.read_bytes())

    page = person.get(f"/tasks/{task}").text
    assert "begun" in page
    attribute = re.search(r'data-stream="([^"]+)"', page)
    assert attribute
    stream = _stream(person, attribute.group(1).replace("&amp;", "&"))
    go.touch()
    assert json.loads(_until(stream, "more").rpartition("data: ")[2])["text"] == "<b>more</b>\n"
    later = house.submit("Another one", "true", "--wait-for", task)
    heard = _until(stream, later)
    assert "event: change" in heard
    assert set(json.loads(heard.rpartition("data: ")[2])) == {"kind", "task_id", "merge_id", "session_id"}
    stream.close()

    open_streams = [_stream(person, "/live?after=0") for _ in range(MOST_STREAMS)]
    for connection in open_streams:
        _until(connection, "event: change")
    full = person.get("/live?after=0")
    assert (full.status, "live already" in full.text) == (503, True)
    assert person.get("/").status == 200  # only the liveness is refused
    for connection in open_streams:
        connection.close()
    eventually(lambda: person.get("/live?probe=1").status == 204)

    house.run("task", "cancel", task)  # a running worker that writes as much is ended, and its log cut
    eventually(lambda: house.ask("GET", f"/tasks/{task}")["status"] == "cancelled")
    with log.open("r+b") as handle:  # 1 GB, which takes no room on the disk
        handle.truncate(1 << 30)
        handle.seek(0, 2)
        handle.write(b"\n" + b"\n".join(b"line %d \x1b[31m" % number for number in range(20_000)) + b"\nlast words\n")
    page = person.get(f"/tasks/{task}").text
    assert "Only the end is shown" in page
    assert "last words" in page
    assert "line 19999" in page
    assert len(page) < 300_000
    assert person.post("/leave", token=person.get("/").token).status == 303


def test_the_web_view_is_packaged_and_its_script_is_small_and_its_own() -> None:
    import corral

    folder = Path(corral.__file__).with_name("faces") / "web"
    scripts = [*folder.rglob("*.mjs")]
    assert {script.name for script in scripts} == {"live.mjs", "keys.mjs"}
    for script in (file.read_text() for file in scripts):
        assert script.count("\n") <= 200
        assert "import " not in script
        assert "setInterval" not in script
    for file in folder.rglob("*.html"):
        text = file.read_text()
        assert not re.search(
            r"<script(?! type=\"module\" src=\"/static/(live|keys).mjs\">)|https?://| style=| on\w+=|\|safe", text
        ), file


def test_candidates_are_drawn_on_what_they_are_built_on() -> None:
    from corral.faces.web.pages import queue

    def row(number: int, state: str, tip: str | None, candidate: str | None) -> dict[str, object]:
        return {"merge_id": f"m{number}", "title": f"Change {number}", "target": "main", "state": state, "tip_sha": tip,
                "candidate_sha": candidate}  # fmt: skip

    rows = [row(1, "verifying", "t" * 40, "a" * 40), row(2, "verifying", "a" * 40, "b" * 40), row(3, "held", "t" * 40, "c" * 40),
            row(4, "queued", None, None)]  # fmt: skip
    (drawing,) = queue.of_targets(rows)  # type: ignore[arg-type]
    target, first, second, held, waits = drawing.boxes
    assert (target.label, target.detail) == ("main", "t" * 12)
    assert first.x == held.x > target.x
    assert second.x > first.x
    assert waits.x > second.x
    assert [line.is_planned for line in drawing.lines] == [False, False, False, True]
    assert {box.link for box in drawing.boxes} == {None, "/merges/m1", "/merges/m2", "/merges/m3", "/merges/m4"}
    assert queue.of_targets([]) == []


@pytest.mark.req("FR-MONITOR-002")
def test_what_is_open_stands_in_the_order_in_which_it_starts_over_all_pages(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}\n")
    batch = [{"title": f"Plain {n}", "command": "true", "priority": 5} for n in range(205)]
    batch[100:100] = [{"title": "Urgent", "command": "true", "priority": 9}]
    batch[0:0] = [{"title": "Whenever", "command": "true", "priority": 1}]
    house.ask("POST", "/tasks/batch", {"tasks": batch})
    person = visitor(house)

    def titles(path: str) -> list[str]:
        text = person.get(path).text
        names = re.findall(r"<bdi>((?:Plain \d+|Urgent|Whenever))</bdi></a>", text)
        following = re.search(r'<a class="button" href="([^"]+)">(Further|Older) tasks', text)
        return names + (titles(html.unescape(following.group(1))) if following else [])

    plain = [f"Plain {n}" for n in range(205)]
    assert titles("/tasks?show=open") == ["Urgent", *plain, "Whenever"]
    assert titles("/tasks") == [*plain[:99:-1], "Urgent", *plain[99::-1], "Whenever"]


def test_a_red_verification_is_explained_once(house: Coordinated) -> None:
    house.configure('landing: {verify: ["echo gone wrong; exit 1"]}\n', "config.yaml")
    commit_all(house.root, "verify", ".corral/config.yaml")
    task = house.submit("Red", "echo x > x.txt")
    merge = eventually(
        lambda: (merge := house.ask("GET", f"/tasks/{task}/detail")["merge"]) and merge["state"] == "held" and merge
    )["merge_id"]
    person = visitor(house)
    for path in (f"/tasks/{task}", f"/merges/{merge}"):
        shown = person.get(path).text
        assert "gone wrong" in shown.split("History</h2>")[0], path
        assert shown.count("failed with exit code 1:\n") == 1, path
