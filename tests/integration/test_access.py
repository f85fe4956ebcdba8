"""Who may speak to the daemon, and what nobody who works in the clone may say."""

from __future__ import annotations

import getpass
import http.client
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import NotPermitted
from tests.conftest import commit, commit_all, git
from tests.support.coordinated import Coordinated
from tests.support.files import put


def _call(
    house: Coordinated, method: str = "GET", path: str = "/api/v1/health", body: str | None = None, **headers: str
) -> tuple[int, Any, dict[str, str]]:
    address = json.loads((house.root / ".corral/run/daemon.json").read_text())
    connection = http.client.HTTPConnection("127.0.0.1", address["port"], timeout=10)
    sent = {
        "Host": f"127.0.0.1:{address['port']}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection.request(method, path, body=body, headers={name: value for name, value in sent.items() if value})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content), {name.lower(): value for name, value in answer.getheaders()}


@pytest.fixture
def house(share: Callable[..., Coordinated]) -> Coordinated:
    """It listens on loopback TCP too."""
    return share(config="daemon: {tcp: true}")


@pytest.fixture
def bearer(house: Coordinated) -> str:
    house.ask("GET", "/health")
    return "Bearer " + (house.root / ".corral/run/token").read_text().strip()


def test_with_the_token_everything_is_served(house: Coordinated, bearer: str) -> None:
    status, health, headers = _call(house, Authorization=bearer)
    assert (status, health["project"]) == (200, str(house.root))
    assert not [name for name in headers if name.startswith("access-control")]
    status, document, _ = _call(house, path="/openapi.json", Authorization=bearer)
    assert status == 200
    assert "/api/v1/tasks" in document["paths"]


STRANGE: tuple[dict[str, str], ...] = (
    {"Authorization": ""},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Basic TOKEN"},
    {"Authorization": "TOKEN", "Host": "evil.test"},
    {"Authorization": "TOKEN", "Host": "evil.test:80"},
    {"Authorization": "TOKEN", "Origin": "null"},
    {"Authorization": "TOKEN", "Origin": "http://localhost:3000"},
)


@pytest.mark.req("X1")
def test_everything_else_is_refused_without_effect(house: Coordinated, bearer: str) -> None:
    body = json.dumps({"title": "evil", "command": "touch /tmp/evil"})
    for headers in STRANGE:
        sent = {name: value.replace("TOKEN", bearer) for name, value in headers.items()}
        status, answer, _ = _call(house, "POST", "/api/v1/tasks", body, Content_Type="application/json", **sent)
        assert status in (401, 403), headers
        assert answer["error"]["code"] == "CORRAL-ERR-011", headers
    assert house.json("task", "list") == []


@pytest.mark.req("X1")
def test_a_form_cannot_submit(house: Coordinated, bearer: str) -> None:
    body = json.dumps({"title": "evil", "command": "true"})
    status, _, _ = _call(house, "POST", "/api/v1/tasks", body, Content_Type="text/plain", Authorization=bearer)
    assert status == 403
    assert house.json("task", "list") == []


@pytest.mark.req("X3")
def test_the_token_is_in_no_log_and_no_command_line(house: Coordinated, bearer: str) -> None:
    import psutil

    token = bearer.split()[1]
    _call(house, Authorization=bearer)
    _call(house, Authorization="Bearer " + token + "x")
    for file in Path(house.root / ".corral/logs").rglob("*"):
        assert not file.is_file() or token not in file.read_text(errors="replace")
    assert not any(token in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


def test_the_socket_needs_no_token(house: Coordinated) -> None:
    assert house.ask("GET", "/health")["pid"] == house.daemon_pid()


def test_a_file_that_a_worker_can_write_does_not_change_what_its_work_is_verified_with(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=("test ! -f ba[d]",))
    commit(house.root, {".corral/config.yaml": (house.root / ".corral/config.yaml").read_text()})
    (house.root / ".corral" / "local.yaml").write_text("landing: {verify: ['true']}\n")
    task = house.carry_out("bad", "touch bad", "--retries", "0", check=False)
    assert house.json("task", "detail", task)["merge"]["state"] == "failed"
    assert git(house.root, "ls-tree", "main", "--", "bad") == ""


@pytest.mark.req("X2")
def test_what_a_clone_brings_of_a_clones_own_is_not_believed(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    evil = coordinate()
    commit_all(evil.root, "coordinated", ".corral/config.yaml", force=True)
    git(tmp_path, "clone", "-q", str(evil.root), "clone")
    house, home = Coordinated(tmp_path / "clone"), tmp_path / "clone" / ".corral"
    for brought in ("corral.db", "corral.db-wal", "local.yaml", "metadata.json", "run/bin/corral", "logs/corral.log"):
        put(evil.root / ".corral" / brought, "{}")
        commit_all(evil.root, "innocent", f".corral/{brought}", force=True)
        git(house.root, "pull", "-q")
        if (home / "run").is_dir():
            (home / "run").chmod(0o700)
        done = house.run("status", "--json", check=False)
        error = json.loads(done.stderr)["error"]
        assert (done.returncode, error["name"]) == (1, "unsupported"), brought
        assert f".corral/{brought}" in error["message"] and "git rm" in error["remedy"], brought
        assert not (home / "corral.db").exists() or brought == "corral.db", brought
        git(evil.root, "rm", "-q", "--cached", "--", f".corral/{brought}")
        git(evil.root, "commit", "-q", "-m", "taken away")
        git(house.root, "pull", "-q")
    try:
        house.run("status")
    finally:
        house.stop()


@pytest.mark.req("X18")
def test_a_link_in_place_of_the_whole_folder_is_not_believed(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    (house.root / ".corral").rename(house.root / "elsewhere")
    (house.root / ".corral").symlink_to("elsewhere")
    git(house.root, "add", "-f", ".corral")
    done = house.run("status", check=False)
    assert (done.returncode, "symbolic link" in done.stderr) == (4, True), done.stderr


@pytest.mark.req("X2")
@pytest.mark.parametrize("planted", ["a link", "a folder that others can enter"])
def test_a_run_folder_that_is_not_private_is_refused(
    coordinate: Callable[..., Coordinated], tmp_path: Path, planted: str
) -> None:
    house = coordinate()
    run, place = house.root / ".corral" / "run", tmp_path / "planted"
    shutil.rmtree(run, ignore_errors=True)
    place.mkdir(mode=0o700)
    if planted == "a link":
        run.symlink_to(place)
    else:
        run.mkdir()
        run.chmod(0o777)
    done = house.run("daemon", "start", check=False)
    assert (done.returncode, "not a private folder" in done.stderr) == (5, True), done.stderr
    assert list(place.iterdir()) == [] and (planted == "a link" or list(run.iterdir()) == [])


@pytest.mark.req("X4")
def test_a_session_acts_for_no_other_and_a_person_who_does_is_on_record(house: Coordinated) -> None:
    me = f"person-{getpass.getuser()}"
    for session in ("alice", "bob", "carol"):
        house.ask("POST", "/sessions", {"session_id": session})
        house.ask("POST", "/locks/acquire", {"paths": [f"{session}.txt"], "session_id": session})
    with pytest.raises(NotPermitted):
        house.ask("POST", "/locks/release", {"paths": ["alice.txt"], "session_id": "alice", "caller": "bob"})
    with pytest.raises(NotPermitted):
        house.ask("POST", "/sessions/alice/end", {"caller": "bob"})
    assert {row["session_id"] for row in house.ask("GET", "/locks")} == {"alice", "bob", "carol"}
    refused = [row for row in house.json("status")["recent"] if row["kind"] == "identity.refused"]
    assert [(row["session_id"], row["data"]["session_id"]) for row in refused] == [("bob", "alice")] * 2
    house.ask("POST", "/locks/release", {"paths": ["alice.txt"], "session_id": "alice", "caller": me})
    house.ask("POST", "/locks/release", {"paths": ["bob.txt"], "session_id": "bob"})
    house.ask("POST", "/sessions/bob/end")
    house.ask("POST", "/sessions/carol/end", {"caller": "carol"})
    releases = {(row["kind"], row["session_id"]): row["data"].get("by") for row in house.json("status")["recent"]}
    assert releases["lock.released", "alice"] == me
    assert releases["lock.released", "bob"] is None
    assert releases["session.ended", "bob"] == me
    assert releases["session.ended", "carol"] is None
