"""The store of the user's answers: by project and content, private, atomic, shared by processes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corral.config.paths import Project
from corral.config.trust import LANDING, Claim, TrustStore, of_file, refuse, trust_file
from corral.core.errors import NotTrusted
from tests.conftest import WITHOUT_ROOTS_RIGHTS

VERIFY = Claim("landing.verify", ["pytest -q"], ".corral/config.yaml")
OTHER = Claim("landing.verify", ["pytest -q", "rm -rf ~"], ".corral/config.yaml")
REPO = Path("/repo/.git")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return trust_file({"XDG_STATE_HOME": str(tmp_path / "state")}, Path("/nowhere"))


def test_an_answer_holds_for_one_project_and_one_content_whichever_file_says_it(file: Path) -> None:
    store = TrustStore(file)
    assert store.missing(REPO, [VERIFY]) == [VERIFY]
    store.approve(REPO, [VERIFY])
    assert TrustStore(file).missing(REPO, [VERIFY, OTHER]) == [OTHER]
    assert store.missing(REPO, [Claim(VERIFY.key, VERIFY.value, "elsewhere.yaml")]) == []
    assert store.missing(REPO, [Claim("worktrees.setup", VERIFY.value, VERIFY.source)]) != []
    assert store.missing(Path("/copy/.git"), [VERIFY]) == [VERIFY]
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700


def test_what_another_process_stored_or_took_back_is_seen_at_once(file: Path) -> None:
    here, there = TrustStore(file), TrustStore(file)
    there.approve(REPO, [VERIFY])
    assert here.missing(REPO, [VERIFY]) == []
    assert there.revoke(REPO) and not there.revoke(REPO)
    assert here.missing(REPO, [VERIFY]) == [VERIFY]


def test_answers_follow_a_repository_that_was_moved(file: Path) -> None:
    store = TrustStore(file)
    store.approve(REPO, [VERIFY])
    store.rebind(REPO, Path("/moved/.git"))
    assert store.missing(Path("/moved/.git"), [VERIFY]) == [] and store.missing(REPO, [VERIFY]) == [VERIFY]
    store.rebind(Path("/unknown/.git"), REPO)
    assert store.missing(REPO, [VERIFY]) == [VERIFY]


def test_no_answer_is_lost_where_many_are_given_at_once(file: Path) -> None:
    claims = [Claim("agents.one", {"command": [str(number)]}, "x") for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda claim: TrustStore(file).approve(REPO, [claim]), claims))
    assert TrustStore(file).missing(REPO, claims) == []


@pytest.mark.parametrize("content", ["", "[]", "null", '{"projects": {"/repo/.git": 3}}', "{", '{"projects": []}'])
def test_a_damaged_file_holds_no_answer_and_takes_new_ones(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(content)
    store = TrustStore(file)
    assert store.missing(REPO, [VERIFY]) == [VERIFY]
    store.approve(REPO, [VERIFY])
    assert TrustStore(file).missing(REPO, [VERIFY]) == [] and json.loads(file.read_text())["version"] == 1


@pytest.mark.skipif(bool(WITHOUT_ROOTS_RIGHTS), reason="root passes over permissions")
def test_a_folder_that_cannot_be_written_is_told(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.parent.chmod(0o500)
    with pytest.raises(NotTrusted, match="Cannot store"):
        TrustStore(file).approve(REPO, [VERIFY])


def test_a_folder_that_is_a_file_is_told(file: Path) -> None:
    file.parent.parent.mkdir(parents=True)
    file.parent.write_text("")
    with pytest.raises(NotTrusted, match="Cannot store"):
        TrustStore(file).approve(REPO, [VERIFY])


def test_without_a_state_folder_of_its_own_it_lies_below_the_home_folder() -> None:
    assert trust_file({"XDG_STATE_HOME": "relative"}, Path("/home/x")) == Path("/home/x/.local/state/corral/trust.json")


@pytest.mark.req("X12")
@pytest.mark.parametrize(("setting", "claimed"), [("always", []), ("paths", ["paths"]), ("never", ["never"])])
def test_less_approval_than_before_is_approved_by_a_person_itself(
    tmp_path: Path, setting: str, claimed: list[str]
) -> None:
    """Also the default: a file that a worker can write could put it in the place of what the person's own file says."""
    project = Project(tmp_path, tmp_path / ".git", tmp_path / ".corral", False)
    claims = of_file(project, f"landing: {{approve: {setting}}}\n".encode(), Path("/nowhere"))
    assert [(claim.key, claim.value) for claim in claims] == [("landing.approve", value) for value in claimed]


@pytest.mark.req("X10")
def test_every_command_that_judges_a_request_needs_an_approval(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / ".git", tmp_path / ".corral", False)
    text = b"landing: {verify: [make test], check: [make lint], affected: ./affected}\n"
    claims = of_file(project, text, Path("/nowhere"))
    assert {claim.key for claim in claims} == {"landing.verify", "landing.check", "landing.affected"}
    for claim in claims:
        with pytest.raises(NotTrusted):
            refuse([claim], *LANDING)
