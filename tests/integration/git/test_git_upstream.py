"""Pushing: never forced, and nothing that the repository configures is executed for it."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from corral.core.errors import InvalidInput
from corral.git.land import upstream
from corral.git.land.upstream import Failure
from corral.git.process.command import Git
from tests.conftest import commit, git
from tests.integration.git.test_git_hostile import plant
from tests.support.files import executable

MAIN, SEEN = "refs/heads/main", "refs/corral/remote/main/seen"
A, B = "a" * 40, "b" * 40


@pytest.fixture
def origin(repo: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "origin.git")
    git(repo, "remote", "add", "origin", str(tmp_path / "origin.git"))
    return tmp_path / "origin.git"


@pytest.mark.req("I2", "X6")
@pytest.mark.parametrize(
    "words",
    [
        ["--force", "origin", f"{A}:{MAIN}"], ["-f", "origin", f"{A}:{MAIN}"], ["origin", f"+{A}:{MAIN}"],
        ["--force-with-lease", "origin", f"{A}:{MAIN}"], [f"--force-with-lease={MAIN}", "origin", f"{A}:{MAIN}"],
        [f"--force-with-lease={MAIN}:main", "origin", f"{A}:{MAIN}"], ["--force-if-includes", "origin", f"{A}:{MAIN}"],
        [f"--force-with-lease={MAIN}:", "origin", f"{A}:{MAIN}"], ["--mirror", "origin"], ["--delete", "origin", "main"],
        ["-d", "origin", "main"], ["--prune", "origin", f"{A}:{MAIN}"], ["origin", f":{MAIN}"], ["--all", "origin"],
        ["--no-force-with-lease", "--forc", "origin", f"{A}:{MAIN}"], ["-uf", "origin", "main"],
        ["--receive-pack=touch x", "origin", f"{A}:{MAIN}"], ["--repo=x", f"{A}:{MAIN}"], ["ext::touch x", f"{A}:{MAIN}"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_push_can_overwrite_what_others_pushed(me: Git, words: list[str]) -> None:
    with pytest.raises(InvalidInput, match="not one that Corral makes"):
        me.run("push", *words)


@pytest.mark.req("I2")
def test_a_push_goes_upon_what_was_fetched_or_nowhere(repo: Path, origin: Path, me: Git) -> None:
    base = git(repo, "rev-parse", "main")
    ours = commit(repo, {"ours.txt": "x\n"})
    with pytest.raises(InvalidInput, match="does not descend"):
        upstream.push(me, "origin", MAIN, base, ours)
    assert upstream.fetch(me, "origin", MAIN, SEEN) == base == git(repo, "rev-parse", SEEN)
    git(origin, "update-ref", MAIN, git(origin, "commit-tree", f"{base}^{{tree}}", "-m", "another history"))
    there = git(origin, "rev-parse", "main")
    refused = upstream.push(me, "origin", MAIN, ours, base)
    assert isinstance(refused, Failure) and "stale info" in refused.words and git(origin, "rev-parse", "main") == there
    git(origin, "update-ref", MAIN, base)
    assert upstream.push(me, "origin", MAIN, ours, base) is None
    assert git(origin, "rev-parse", "main") == ours == git(repo, "rev-parse", "origin/main")
    assert upstream.push(me, "origin", MAIN, ours, base) is None, "what has arrived is no failure"


@pytest.mark.req("X7", "X9")
def test_what_the_repository_configures_is_not_executed_for_a_remote(
    repo: Path, origin: Path, me: Git, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    plant(repo / ".git/config", repo / ".git/hooks", marker)
    for hook in ("pre-push", "push-to-checkout", "reference-transaction"):
        executable(repo / ".git/hooks" / hook, f"#!/bin/sh\ntouch {marker}\n")
    script = executable(tmp_path / "planted", f'#!/bin/sh\ntouch {marker}\nexec $(basename $0) "$@"\n')
    for key, value in {
        "remote.origin.receivepack": f"{script}; git-receive-pack", "remote.origin.uploadpack": f"{script}; git-upload-pack",
        "remote.origin.mirror": "true", "remote.origin.push": "+refs/heads/*:refs/heads/*", "push.gpgSign": "true",
        "core.alternateRefsCommand": f"touch {marker}; true", "core.gitProxy": str(script),
        "credential.http://127.0.0.1.helper": f"!touch {marker}",
    }.items():  # fmt: skip
        git(repo, "config", key, value)
    alternate = tmp_path / "alternate.git"
    git(tmp_path, "init", "-q", "--bare", str(alternate))
    (repo / ".git/objects/info").mkdir(exist_ok=True)
    (repo / ".git/objects/info/alternates").write_text(f"{alternate}/objects\n")
    marker.unlink(missing_ok=True)
    base = git(origin, "rev-parse", "main")
    tree = me.must("rev-parse", f"{base}^{{tree}}")
    ours = me.must("commit-tree", tree, "-p", base, "-m", "ours", env={"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x",
        "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"})  # fmt: skip
    assert upstream.fetch(me, "origin", MAIN, SEEN) == base
    assert upstream.push(me, "origin", MAIN, ours, base) is None and upstream.probe(me, "origin") is None
    assert git(origin, "rev-parse", "main") == ours
    for url in ("ssh://127.0.0.1:1/x", "git://127.0.0.1:1/x", "http://127.0.0.1:1/x", "ext::touch% " + str(marker)):
        (repo / ".git/config").write_text((repo / ".git/config").read_text().replace(f"url = {origin}", f"url = {url}"))
        assert isinstance(upstream.probe(me, "origin"), Failure), url
        (repo / ".git/config").write_text((repo / ".git/config").read_text().replace(f"url = {url}", f"url = {origin}"))
    assert not marker.exists()


class Refusing(BaseHTTPRequestHandler):
    """Wants credentials."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.req("X7")
def test_the_users_own_helper_is_asked_for_credentials_and_the_repositorys_is_not(
    repo: Path, me: Git, tmp_path: Path
) -> None:
    """Without one nothing is asked for at a terminal, and nothing waits."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        git(repo, "remote", "add", "origin", f"http://127.0.0.1:{server.server_port}/x")
        own, planted = tmp_path / "own", tmp_path / "planted"
        refused = upstream.probe(me, "origin")
        assert refused is not None and "could not read Username" in refused.words
        git(repo, "config", "--global", "credential.helper", f"!touch {own}; :")
        upstream.probe(me, "origin")
        assert own.exists()
        own.unlink()
        git(repo, "config", f"credential.http://127.0.0.1:{server.server_port}.helper", f"!touch {planted}; :")
        upstream.probe(me, "origin")
        assert not own.exists() and not planted.exists()
    finally:
        server.shutdown()
        server.server_close()


def test_a_remote_that_never_answers_is_not_waited_for(repo: Path, me: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FETCH_S", "PUSH_S", "PROBE_S"):
        monkeypatch.setattr(upstream, name, 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        git(repo, "remote", "add", "origin", f"git://127.0.0.1:{silent.getsockname()[1]}/x")
        head = git(repo, "rev-parse", "main")
        for failed in (
            upstream.fetch(me, "origin", MAIN, SEEN), upstream.push(me, "origin", MAIN, head, head), upstream.probe(me, "origin")
        ):  # fmt: skip
            assert isinstance(failed, Failure) and "did not finish within 0.5 s" in failed.words


@pytest.mark.parametrize(
    "text", ["https://me:pw@h/x", "https://onlyatoken@h/x", "http://h/x?token=abc'", "ssh://u:pw@h/x"]
)
def test_addresses_are_told_without_secrets(text: str) -> None:
    message = upstream.redacted(f"unable to access '{text}'")
    assert "[redacted]" in message and not any(secret in message for secret in ("pw", "onlyatoken", "abc"))
    assert upstream.redacted("ssh://git@h/x and git@h:x") == "ssh://git@h/x and git@h:x"
