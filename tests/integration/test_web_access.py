"""Who may see the web view, and what nobody who was not let in can do."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsing import Visitor, visitor
from tests.support.coordinated import Coordinated
from tests.support.strangers import NEEDS_ROOT

NOW = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
PAGES = (
    "/",
    "/tasks",
    "/queue",
    "/sessions",
    "/timeline",
    "/tasks/1",
    "/live",
    "/static/page.css",
    "/static/live.mjs",
    "/x",
)


@pytest.mark.req("X1")
def test_only_who_opened_a_fresh_link_is_let_in_and_only_as_a_browser_of_these_pages_would_ask(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate()
    task = house.submit("Wait", "sleep 600")
    assert json.loads((house.root / ".corral/run/daemon.json").read_text())["port"] is None
    first = house.run("web", "--no-open").stdout
    assert first.count("\n") == 1
    assert first.startswith("http://127.0.0.1:")
    stranger = Visitor(int(first.split(":")[2].split("/")[0]))

    for path in PAGES:  # nothing without the cookie, also not the styles
        answer = stranger.get(path)
        assert (answer.status, "corral web" in answer.text, "Wait" in answer.text) == (403, True, False), path
    bearer = "Bearer " + (house.root / ".corral/run/token").read_text().strip()
    assert stranger.get("/api/v1/status", Authorization=bearer).status == 403  # nothing of the API is served here

    person = Visitor(stranger.port)
    entered = person.come_in(first.strip())
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert stranger.come_in(first.strip()).status == 403  # once
    assert stranger.get("/enter?key=" + "x" * 43).status == 403
    assert person.get("/api/v1/status").status == 404

    page = person.get("/")
    assert (page.status, "Wait" in page.text) == (200, True)
    rules = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert rules == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'", "connect-src": "'self'",
        "frame-ancestors": "'none'", "form-action": "'self'", "base-uri": "'none'",
    }  # fmt: skip
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "same-origin"
    assert not [name for name in page.headers if name.startswith("access-control")]
    assert "<script>" not in page.text
    assert bearer.split()[1] not in page.text

    own = f"http://127.0.0.1:{person.port}"
    for other in (
        {"Host": "evil.test"}, {"Host": f"localhost:{person.port}"}, {"Origin": "http://evil.test"}, {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    ):  # fmt: skip
        assert person.get("/", **other).status == 403, other
        assert person.get("/live?after=0", **other).status == 403, other
    cancel = f"/tasks/{task}/cancel"
    good: dict[str, Any] = {"token": page.token, "confirmed": "yes", "back": "/"}
    wrong: tuple[dict[str, str | None], ...] = (
        {"Origin": None}, {"Origin": "null"}, {"Origin": "http://evil.test"}, {"Host": "evil.test"}, {"Cookie": None},
        {"Sec-Fetch-Site": "same-site"}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json"},
    )  # fmt: skip
    for changed in wrong:
        assert person.post(cancel, changed, **good).status == 403, changed
    assert person.post(cancel, confirmed="yes").status == 403
    assert person.post(cancel, confirmed="yes", token="0" * 64).status == 403
    assert person.get(f"{cancel}?confirmed=yes&token={page.token}").status == 200  # a GET only asks
    assert person.request("DELETE", cancel).status == 405
    assert person.post("/tasks/1/dismiss", token=page.token, body="x" * 300_000).status == 413
    assert house.ask("GET", f"/tasks/{task}/detail")["cancel_reason"] is None

    asked = person.post(cancel, token=page.token)  # without the answer to the question nothing ends
    assert (asked.status, "Cancel the task" in asked.text) == (200, True)
    assert house.ask("GET", f"/tasks/{task}/detail")["cancel_reason"] is None
    done = person.post(cancel, **{**good, "back": "//evil.test/"})
    assert (done.status, done.headers["location"]) == (303, "/?done=cancel")
    assert house.ask("GET", f"/tasks/{task}/detail")["cancel_reason"] is not None

    other_person = visitor(house)
    assert other_person.post(cancel, **good).status == 403  # the token of another session
    assert person.post("/leave", token=page.token).status == 303
    assert person.get("/").status == 403
    assert other_person.get("/").status == 200

    kept = house.root / ".corral/run/web.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    secret = other_person.cookie.partition("=")[2]
    for file in [kept, *Path(house.root / ".corral/logs").rglob("*")]:
        text = file.read_text(errors="replace") if file.is_file() else ""
        assert secret not in text
        assert first.strip().partition("key=")[2] not in text
    house.kill_daemon()
    house.run("status")
    assert other_person.get("/").status == 200  # an open page goes on after a restart, on the same port
    assert own.endswith(str(other_person.port))


@pytest.mark.req("X4")
def test_an_agent_gets_no_link(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\n")
    refused = house.run("web", "--no-open", check=False, CLAUDECODE="1")
    assert (refused.returncode != 0, "needs a person" in refused.stderr) == (True, True)
    script = tmp_path / "ask.py"
    script.write_text(
        "import http.client, socket, sys\n"
        "c = http.client.HTTPConnection('localhost')\n"
        "c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1])\n"
        "c.request('POST', '/api/v1/web/links'); a = c.getresponse(); print(a.status, a.read().decode())\n"
    )
    house.run("status")
    socket = json.loads((house.root / ".corral/run/daemon.json").read_text())["socket"]
    task = house.carry_out("Ask", f"python3 {script} {socket}", check=False)
    output = house.run("task", "logs", task).stdout
    assert "403" in output or "409" in output, output
    assert "/enter?key=" not in output


_BECOME = "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
_CANCELLING = f"""{_BECOME}
family, source, port, cookie, task, token = sys.argv[1:]
link = socket.socket(getattr(socket, family))
link.bind((source, 0))
link.connect((source.rpartition("127.")[0] + "127.0.0.1", int(port)))
form = f"confirmed=yes&back=/&token={{token}}"
own = f"127.0.0.1:{{port}}"
said = {{
    "Host": own, "Cookie": cookie, "Origin": f"http://{{own}}", "Sec-Fetch-Site": "same-origin",
    "Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(form)),
}}
head = "".join(f"{{name}}: {{value}}\\r\\n" for name, value in said.items())
link.sendall(f"POST /tasks/{{task}}/cancel HTTP/1.1\\r\\n{{head}}\\r\\n{{form}}".encode())
print(link.recv(65536).decode().split()[1])
"""
TELLS_WHOSE = pytest.mark.skipif(sys.platform != "linux", reason="this system does not tell whose a connection is")


@pytest.mark.req("X2")
@NEEDS_ROOT
@TELLS_WHOSE
def test_another_user_is_refused_even_with_the_cookie(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    person, task = visitor(house), house.submit("Wait", "sleep 600")
    page = person.get("/")
    assert page.status == 200
    for family, source in (
        ("AF_INET", "127.0.0.1"), ("AF_INET6", "::ffff:127.0.0.1"), ("AF_INET", "127.0.0.5"), ("AF_INET6", "::ffff:127.0.0.5"),
    ):  # fmt: skip
        asked = [family, source, str(person.port), person.cookie, task, page.token]
        done = subprocess.run([sys.executable, "-c", _CANCELLING, *asked], stdout=subprocess.PIPE, text=True, cwd="/")
        assert done.stdout.strip() == "403", (family, source)
        assert house.ask("GET", f"/tasks/{task}/detail")["cancel_reason"] is None, (family, source)
    assert person.post(f"/tasks/{task}/cancel", token=page.token, confirmed="yes").status == 303


_CLOSING = f"""{_BECOME}
link = socket.socket()
link.connect(("127.0.0.1", int(sys.argv[1])))
print(link.getsockname()[1], flush=True)
sys.stdin.readline()
link.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.mark.req("X2")
@NEEDS_ROOT
@TELLS_WHOSE
def test_who_has_hung_up_and_who_is_not_found_is_another_user(tmp_path: Path) -> None:
    """The kernel prints the user of an end that nobody holds any more as root."""
    from corral.faces.web.entry import is_stranger

    with socket.create_server(("127.0.0.1", 0)) as listening:
        own = listening.getsockname()
        with socket.create_connection(own) as mine:
            assert not is_stranger(mine.getsockname(), own)
            assert is_stranger(mine.getsockname(), own, (tmp_path / "tcp",)), "no table, nobody found"
            assert is_stranger(("127.0.0.5", mine.getsockname()[1]), own), "another address with the port of mine"
            assert is_stranger(None, own)
        with socket.socket(socket.AF_INET6) as mine:
            mine.connect(("::ffff:127.0.0.1", own[1]))
            assert not is_stranger(("127.0.0.1", mine.getsockname()[1]), own), "the person by the mapped address"
        command = [sys.executable, "-c", _CLOSING, str(own[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as other:
            assert other.stdin is not None and other.stdout is not None
            client = ("127.0.0.1", int(other.stdout.readline()))
            assert is_stranger(client, own)
            print(file=other.stdin, flush=True)
            assert other.stdout.readline() == "closed\n"
            assert is_stranger(client, own)
            other.stdin.close()


# -- links and sessions by themselves --------------------------------------------------------------------------------


def _sessions(tmp_path: Path) -> Any:
    from corral.faces.web.sessions import BrowserSessions

    return BrowserSessions(tmp_path / "web.json")


def test_a_link_opens_once_and_within_a_minute(tmp_path: Path) -> None:
    sessions = _sessions(tmp_path)
    late, used, good = (sessions.new_link(NOW) for _ in range(3))
    assert sessions.enter(used, NOW + timedelta(seconds=59)) is not None
    assert sessions.enter(used, NOW + timedelta(seconds=59)) is None
    assert sessions.enter(late, NOW + timedelta(seconds=60)) is None
    assert sessions.enter(good, NOW + timedelta(seconds=59)) is not None
    assert sessions.enter("", NOW) is None


def test_a_browser_that_was_left_open_for_a_week_is_not_let_in(tmp_path: Path) -> None:
    sessions = _sessions(tmp_path)
    secret = sessions.enter(sessions.new_link(NOW), NOW)
    assert sessions.is_open(secret, NOW + timedelta(hours=23))
    assert not sessions.is_open(secret, NOW + timedelta(hours=24))
    assert not sessions.any_open(NOW + timedelta(days=7))


def test_links_and_sessions_are_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    from corral.faces.web.sessions import MOST_LINKS, MOST_SESSIONS

    sessions = _sessions(tmp_path)
    links = [sessions.new_link(NOW) for _ in range(MOST_LINKS + 1)]
    assert sessions.enter(links[0], NOW) is None
    assert sessions.enter(links[1], NOW) is not None
    secrets = [sessions.enter(sessions.new_link(NOW), NOW) for _ in range(MOST_SESSIONS + 1)]
    assert [sessions.is_open(secret, NOW) for secret in secrets] == [False] + [True] * MOST_SESSIONS


def test_sessions_outlive_the_daemon_and_a_damaged_file_only_closes_them(tmp_path: Path) -> None:
    sessions = _sessions(tmp_path)
    secret = sessions.enter(sessions.new_link(NOW), NOW)
    sessions.listens_on(4711)
    again = _sessions(tmp_path)
    assert (again.is_open(secret, NOW), again.port) == (True, 4711)
    assert secret not in (tmp_path / "web.json").read_text()
    for text in ("", "[]", '{"port": "x", "sessions": {}}', '{"port": 1, "sessions": {"a": 3}}'):
        (tmp_path / "web.json").write_text(text)
        assert not _sessions(tmp_path).any_open(NOW), text
