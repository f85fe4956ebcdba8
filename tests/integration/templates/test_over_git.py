"""A template comes over git's own protocol: cached, tried again, customised, updated with a conflict, rolled back."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import commit_all, git
from tests.integration.templates.repositories import AGENT, FILES, release, template
from tests.support.coordinated import Coordinated, eventually

AGENT_FILE = ".claude/agents/reviewer.md"


class Server:
    """A `git daemon` on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        argv = ["git", "daemon", "--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={self.port}"]
        self._running = subprocess.Popen([*argv, f"--base-path={self._folder}"], start_new_session=True)
        eventually(self._listens)

    def stop(self) -> None:
        """End it."""
        if self._running is not None:
            self._running.terminate()
            self._running.wait()
            self._running = None
            eventually(lambda: not self._listens())

    def _listens(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return template(tmp_path / "served" / "ours")


@pytest.fixture
def server(source: Path) -> Iterator[Server]:
    served = Server(source.parent)
    served.start()
    yield served
    served.stop()


@pytest.mark.req("FR-TMPL-001", "FR-TMPL-005", "FR-TMPL-006")
def test_fetched_customised_updated_with_a_conflict_and_rolled_back(repo: Path, source: Path, server: Server) -> None:
    house, url = Coordinated(repo), f"git://127.0.0.1:{server.port}/ours"
    house.run("init", "--template", url, "--version", "v1.0.0", "--yes")
    assert {*house.json("template", "verify")["files"].values()} == {"unchanged"}
    agent = repo / AGENT_FILE
    mine = AGENT.replace("Say what is wrong.", "Say it kindly.")
    agent.write_text(mine)
    release(source, "v1.1.0", {AGENT_FILE: AGENT.replace("Say what is wrong.", "Say everything.")})
    assert house.run("template", "update", "--yes", check=False).returncode == 4
    assert agent.read_text() == mine
    house.run("template", "update", "--yes", "--on-conflict", "markers")
    assert "<<<<<<< yours" in agent.read_text() and house.json("template", "verify")["version"] == "v1.1.0"
    house.run("template", "update", "--rollback")
    assert agent.read_text() == mine and house.json("template", "verify")["version"] == "v1.0.0"
    refused = house.run("template", "update", "--rollback", check=False)
    assert refused.returncode == 3 and "was not updated since it was installed" in refused.stderr
    assert agent.read_text() == mine and house.json("template", "verify")["version"] == "v1.0.0"


@pytest.mark.req("FR-TMPL-003")
def test_the_cache_serves_until_somebody_asks_for_an_update(repo: Path, source: Path, server: Server) -> None:
    url = f"git://127.0.0.1:{server.port}/ours"
    first = Coordinated(repo).json("init", "--template", url, "--yes")["template"]
    assert first["from_cache"] is False
    release(source, "v1.1.0", {"README.md": "Newer.\n"})
    second = Coordinated(_another(repo.parent / "second"))
    answer = second.json("init", "--template", url, "--yes")["template"]
    assert (answer["from_cache"], answer["version"], answer["remarks"]) == (True, "v1.0.0", [])
    server.stop()
    offline = Coordinated(_another(repo.parent / "offline"))
    old = offline.json("init", "--template", url, "--yes", CORRAL_TEMPLATES_CACHE_DAYS="0.000001")["template"]
    assert old["version"] == "v1.0.0" and "The cached version of" in old["remarks"][0]
    assert [row["source"] for row in second.json("template", "cache")] == [url]
    third = Coordinated(_another(repo.parent / "third"))
    assert third.run("init", "--template", url, "--update", "--yes", check=False).returncode != 0
    server.start()
    assert third.json("init", "--template", url, "--update", "--yes")["template"]["version"] == "v1.1.0"


@pytest.mark.req("FR-TMPL-003")
def test_the_age_of_the_cache_is_a_setting(repo: Path, source: Path, server: Server) -> None:
    url = f"git://127.0.0.1:{server.port}/ours"
    Coordinated(repo).run("init", "--template", url, "--yes")
    release(source, "v1.1.0", {"README.md": "Newer.\n"})
    second = Coordinated(_another(repo.parent / "second"))
    fetched = second.json("init", "--template", url, "--yes", CORRAL_TEMPLATES_CACHE_DAYS="0.000001")["template"]
    assert (fetched["from_cache"], fetched["version"]) == (False, "v1.1.0")


def test_a_cached_template_with_errors_says_since_when_it_is_kept(repo: Path, source: Path, server: Server) -> None:
    release(source, None, {".corral/templates/page.yaml": "name: other\n"})
    init = ("init", "--template", f"git://127.0.0.1:{server.port}/ours", "--version", "main", "--yes")
    fresh, kept = (Coordinated(repo).run(*init, check=False) for _ in range(2))
    assert "page.yaml:1: " in fresh.stderr and "--update" not in fresh.stderr
    assert "This is the copy of 2" in kept.stderr and "`--update` fetches it again" in kept.stderr
    release(source, None, {".corral/templates/page.yaml": "name: page\nprompt: x\n"})
    assert Coordinated(repo).run(*init, "--update").returncode == 0


@pytest.mark.req("FR-TMPL-001")
def test_an_unreachable_server_is_tried_three_times(repo: Path, server: Server) -> None:
    server.stop()
    began = time.monotonic()
    done = Coordinated(repo).run("init", "--template", f"git://127.0.0.1:{server.port}/ours", "--yes", check=False)
    assert done.returncode != 0 and "3 tries" in done.stderr and "unable to connect" in done.stderr
    assert time.monotonic() - began >= 3, "a second apart, then two"
    assert not (repo / ".corral").exists()


@pytest.mark.req("FR-TMPL-001")
def test_a_repository_that_is_not_there_is_asked_for_once(repo: Path, server: Server) -> None:
    done = Coordinated(repo).run("init", "--template", f"git://127.0.0.1:{server.port}/other", "--yes", check=False)
    assert done.returncode != 0 and "cannot be fetched" in done.stderr


def _another(place: Path) -> Path:
    place.mkdir()
    git(place, "init", "-q")
    (place / "a.txt").write_text(FILES["README.md"])
    commit_all(place, "first")
    return place
