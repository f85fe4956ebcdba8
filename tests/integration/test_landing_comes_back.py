"""What does not land: sent back with evidence, or held until the way is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.config.model import Landing
from corral.errors import ConfigInvalid, CorralError
from corral.landing import requests
from corral.observe.redaction import remember_secrets
from corral.store import merges
from tests.conftest import commit, git
from tests.integration.landing_world import World


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    yield made
    made.close()


def fingerprint(root: Path) -> dict[str, bytes]:
    """Every file of a checkout but the project's own, byte for byte."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in (".git", ".corral")
    }


@pytest.mark.req("I5")
def test_a_conflict_with_what_has_landed_goes_back_typed(world: World) -> None:
    world.branch("one", {"src/a.py": "a = 2\n", "both.py": "1\n"})
    world.branch("two", {"src/a.py": "a = 3\n", "both.py": "2\n"})
    first, second = world.submit("one"), world.submit("two")
    world.run()
    assert world.merge(first)["state"] == "landed"
    merge = world.merge(second)
    assert merge["state"] == "conflict"
    assert merge["conflicts"] == [{"path": "both.py", "kind": "add/add"}, {"path": "src/a.py", "kind": "content"}]
    assert "src/a.py (content)" in merge["reason"]
    assert "two conflicts with main" in merge["reason"]
    assert git(world.root, "rev-parse", "two") == merge["head_sha"]
    assert world.held_refs() == []
    assert world.settled[-1] == (second, "conflict")


def test_a_conflict_that_was_resolved_on_the_branch_lands_as_a_new_request(world: World) -> None:
    world.branch("two", {"src/a.py": "a = 3\n"})
    commit(world.root, {"src/a.py": "a = 2\n"})
    merge_id = world.land("two")["merge_id"]
    assert world.merge(merge_id)["state"] == "conflict"
    side = world.root.parent / "resolve"
    git(world.root, "worktree", "add", "-q", str(side), "two")
    git(side, "merge", "-q", "main", check=False)
    commit(side, {"src/a.py": "a = 5\n"}, "resolved")
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    world.run()
    assert world.merge(merge_id)["state"] == "conflict", "the pinned head still conflicts"
    requests.retry(world.db, world.repo(), merge_id, follow_branch=True, now=world.now())
    world.run()
    assert world.merge(merge_id)["state"] == "landed"
    assert (world.root / "src/a.py").read_text() == "a = 5\n"


def test_work_whose_branch_was_deleted_stays_reachable(world: World) -> None:
    head = world.branch("two", {"src/a.py": "a = 3\n"})
    commit(world.root, {"src/a.py": "a = 2\n"})
    merge_id = world.submit("two")
    git(world.root, "update-ref", "-d", "refs/heads/two")
    world.run()
    assert world.merge(merge_id)["state"] == "conflict"
    assert git(world.root, "rev-parse", f"refs/corral/mq/{merge_id}") == head


@pytest.mark.req("G24")
def test_unrelated_histories_are_refused_with_a_reason(world: World) -> None:
    git(world.root, "switch", "-q", "--orphan", "alien")
    commit(world.root, {"z.txt": "z\n"})
    git(world.root, "switch", "-q", "main")
    merge = world.land("alien")
    assert merge["state"] == "failed"
    assert "no history in common" in merge["reason"]


@pytest.mark.req("G8")
@pytest.mark.parametrize(
    "way", ["modified", "untracked", "ignored", "staged", "inside a new file", "around a new file"]
)
def test_overlapping_dirt_holds_the_landing_and_is_not_touched(world: World, tmp_path: Path, way: str) -> None:
    runs = tmp_path / "runs"
    world.landing = Landing(verify=[f"ls >> {runs}"])
    theirs, path = {
        "modified": ("src/a.py", "src/a.py"),
        "staged": ("src/a.py", "src/a.py"),
        "inside a new file": ("new", "new/mine.txt"),
        "around a new file": ("new/theirs.txt", "new"),
    }.get(way, ("new.txt", "new.txt"))
    world.branch("feature", {theirs: "theirs\n"})
    world.branch("behind", {"behind.txt": "x\n"})
    world.branch("last", {"last.txt": "x\n"})
    (world.root / path).parent.mkdir(exist_ok=True)
    (world.root / path).write_text("mine\n")
    if way == "staged":
        git(world.root, "add", path)
    if way == "ignored":
        (world.root / ".git/info/exclude").write_text("new.txt\n")
    before, index = fingerprint(world.root), (world.root / ".git/index").read_bytes()
    merge_id = world.submit("feature")
    world.run()
    merge = world.merge(merge_id)
    assert merge["state"] == "held"
    assert fingerprint(world.root) == before
    assert (world.root / ".git/index").read_bytes() == index
    others = [world.submit("behind"), world.submit("last")]
    world.skip(2)
    world.run()
    assert [world.merge(other)["state"] for other in others] == ["landed"] * 2, "the line goes on"
    assert world.merge(merge_id) == merge, "it is neither built nor verified again while it cannot land"
    assert runs.read_text().count("README.md") == 3
    (world.root / ".git/index.lock").touch()
    world.skip(10)
    world.queue.step(world.now())
    assert world.merge(merge_id) == merge, "to look, no lock is needed: the user's is not even noticed"
    (world.root / ".git/index.lock").unlink()
    if way in ("modified", "staged"):
        git(world.root, "checkout", "-q", "HEAD", "--", path)
    else:
        (world.root / path).unlink()
    world.run()
    assert world.merge(merge_id)["state"] == "landed"
    assert (world.root / theirs).read_text() == "theirs\n"
    assert world.events().count("merge.held") == 1


@pytest.mark.req("G8")
@pytest.mark.parametrize("way", ["moved away", "committed elsewhere", "staged as it would land", "merged by hand"])
def test_the_way_is_free_again(world: World, way: str) -> None:
    world.branch("feature", {"src/a.py": "theirs\n"})
    mine = world.root / "src/a.py"
    mine.write_text("mine\n")
    merge_id = world.submit("feature")
    world.run()
    assert world.merge(merge_id)["state"] == "held"
    if way == "moved away":
        mine.rename(world.root / "mine.py")
    elif way == "committed elsewhere":
        git(world.root, "switch", "-q", "-c", "elsewhere")
        commit(world.root, {"src/a.py": "mine\n"})
    elif way == "staged as it would land":
        mine.write_text("theirs\n")
        git(world.root, "add", "src/a.py")
    else:
        git(world.root, "checkout", "-q", "HEAD", "--", "src/a.py")
        git(world.root, "merge", "-q", "--ff-only", "feature")
        mine.write_text("mine again\n")
    world.run()
    assert world.merge(merge_id)["state"] == "landed"
    assert git(world.root, "show", "main:src/a.py") == "theirs"


def test_who_is_held_is_looked_at_less_and_less_often(world: World) -> None:
    world.branch("feature", {"src/a.py": "theirs\n"})
    (world.root / "src/a.py").write_text("mine\n")
    world.submit("feature")
    world.run()
    waits = []
    for _ in range(5):
        due = world.queue.step(now := world.now())
        assert due is not None
        waits.append((due - now).total_seconds())
        world.skip(waits[-1])
    assert waits[0] == 2
    assert waits == sorted(waits)
    assert waits[-1] == 10


def test_a_line_waits_a_moment_for_a_git_that_is_just_at_work(world: World) -> None:
    """Another's verification takes minutes, a commit of the user's does not."""
    world.branch("first", {"first.txt": "x\n"})
    world.branch("second", {"second.txt": "x\n"})
    first, second = world.submit("first"), world.submit("second")
    (world.root / ".git/index.lock").touch()
    world.run()
    assert (world.merge(first)["state"], world.merge(second)["state"]) == ("held", "queued")
    assert "a git command is running" in world.merge(first)["reason"]
    (world.root / ".git/index.lock").unlink()
    world.run()
    assert world.settled == [(first, "landed"), (second, "landed")]


def test_a_later_request_of_the_same_branch_does_not_go_past_the_held_one(world: World) -> None:
    """One that is landing cannot be superseded, and may turn out to be held."""
    head = world.branch("feature", {"src/a.py": "theirs\n"})
    (world.root / "src/a.py").write_text("mine\n")
    first, tip = world.submit("feature"), world.tip()
    intent = {"target": "main", "old_sha": tip, "new_sha": head, "merge_ids": [first]}
    world.db.write(lambda conn: merges.intend(conn, **intent, now=world.now()))  # type: ignore[arg-type]
    git(world.root, "branch", "-f", "feature", world.branch("other", {"other.txt": "x\n"}))
    second = world.submit("feature")
    for _ in range(3):
        world.run()
        world.skip(10)
    assert (world.merge(first)["state"], world.merge(second)["state"]) == ("held", "queued")
    git(world.root, "checkout", "-q", "HEAD", "--", "src/a.py")
    world.run()
    assert world.settled == [(first, "landed"), (second, "landed")]


def test_waiting_for_the_way_writes_nothing_new(world: World) -> None:
    world.branch("feature", {"src/a.py": "theirs\n"})
    (world.root / "src/a.py").write_text("mine\n")
    merge_id = world.submit("feature")
    world.run()

    def rows() -> tuple[object, ...]:
        return tuple(
            world.db.read(lambda conn, table=table: conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar())  # type: ignore[misc]
            for table in ("receipts", "events", "landing_intents")
        )

    before = rows()
    for _ in range(3):
        world.queue.step(world.now())
    assert rows() == before
    assert world.merge(merge_id)["state"] == "held"


@pytest.mark.req("G8")
def test_dirt_that_does_not_overlap_is_kept_byte_for_byte(world: World) -> None:
    world.branch("feature", {"src/a.py": "a = 2\n"})
    (world.root / "src/b.py").write_text("b = mine\n")
    (world.root / "note.txt").write_text("mine\n")
    (world.root / "README.md").write_text("staged\n")
    git(world.root, "add", "README.md")
    before = fingerprint(world.root)
    assert world.land("feature")["state"] == "landed"
    after = fingerprint(world.root)
    assert after.pop("src/a.py") == b"a = 2\n"
    before.pop("src/a.py")
    assert after == before
    assert git(world.root, "diff", "--cached", "--name-only") == "README.md"


@pytest.mark.req("G9")
def test_a_user_who_commits_to_the_target_meanwhile_is_built_upon(world: World) -> None:
    gate = world.root.parent / "gate"
    world.landing = Landing(verify=[f"while ! test -e {gate}; do sleep 0.02; done; cat mine.txt 2>/dev/null || true"])
    world.branch("feature", {"new.txt": "x\n"})
    merge_id = world.submit("feature")
    world.until(merge_id, "verifying")
    mine = commit(world.root, {"mine.txt": "mine\n"})
    gate.touch()
    world.run()
    merge = world.merge(merge_id)
    assert merge["state"] == "landed"
    assert git(world.root, "rev-parse", "main^1") == mine
    assert world.receipt(merge_id)["tree"] == git(world.root, "rev-parse", "main^{tree}")
    assert "mine" in (world.root / world.receipt(merge_id)["log"]).read_text()


def test_a_target_that_was_deleted_holds_its_line(world: World) -> None:
    git(world.root, "branch", "release")
    world.branch("feature", {"new.txt": "x\n"})
    merge_id = world.submit("feature", target="release")
    git(world.root, "branch", "-D", "release")
    world.run()
    assert world.merge(merge_id)["state"] == "held"
    assert "no branch release" in world.merge(merge_id)["reason"]
    git(world.root, "branch", "release")
    world.run()
    assert world.merge(merge_id)["state"] == "landed"


@pytest.mark.req("G26")
@pytest.mark.req("I5")
def test_a_pair_that_only_breaks_together_is_caught_on_the_merged_tree(world: World) -> None:
    commit(world.root, {"lib.py": "def old():\n    return 1\n", "use.py": "import lib\n\n\nassert lib.old() == 1\n"})
    world.landing = Landing(verify=["for f in use*.py; do python3 -B $f || exit 1; done"])
    world.branch(
        "rename", {"lib.py": "def new():\n    return 1\n", "use.py": "import lib\n\n\nassert lib.new() == 1\n"}
    )
    world.branch("caller", {"use_more.py": "import lib\n\nassert lib.old() == 1\n"})
    first, second = world.submit("rename"), world.submit("caller")
    world.run()
    assert world.merge(first)["state"] == "landed"
    merge = world.merge(second)
    assert merge["state"] == "failed"
    assert "exit code 1" in merge["reason"]
    assert "AttributeError" in merge["reason"]
    assert "The target without it is green" in merge["reason"]
    assert world.tip() == world.merge(first)["landed_sha"]


@pytest.mark.req("G28")
def test_red_then_green_on_one_tree_is_a_flake_and_lands(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"test -e {tmp_path}/second || {{ touch {tmp_path}/second; exit 1; }}"])
    world.branch("feature", {"new.txt": "x\n"})
    merge = world.land("feature")
    assert merge["state"] == "landed"
    assert world.receipt(merge["merge_id"])["reason"].startswith("Flaky: red 1 times, then green")
    assert "merge.flaky" in world.events()


@pytest.mark.req("I5")
@pytest.mark.req("I6")
def test_a_red_target_sends_nobody_back_and_goes_on_when_it_is_mended(world: World, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    world.landing = Landing(verify=[f"echo x >> {runs}; test ! -e broken.txt"], reruns=1)
    commit(world.root, {"broken.txt": "x\n"})
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("behind", {"behind.txt": "x\n"})
    merge_id, behind = world.submit("feature"), world.submit("behind")
    world.run()
    assert world.merge(merge_id)["state"] == "held"
    assert "The target itself is red" in world.merge(merge_id)["reason"]
    assert world.merge(behind)["state"] == "queued"
    spent = runs.read_text()
    assert spent == "x\n" * 4, "twice the merged tree, twice the tip"
    world.queue.step(world.now())
    assert runs.read_text() == spent, "waiting costs no run"
    git(world.root, "rm", "-q", "broken.txt")
    git(world.root, "commit", "-q", "-m", "mended")
    world.run()
    assert (world.merge(merge_id)["state"], world.merge(behind)["state"]) == ("landed", "landed")


@pytest.mark.req("NFR-SEC-002")
def test_what_a_verification_prints_is_shown_without_its_secrets(world: World) -> None:
    remember_secrets({"DEPLOY_PASSWORD": "quite-an-ordinary-word"})
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    # In the long line, a cut at 200 characters would leave a piece that nothing recognises.
    says = [f"echo GOT {token}", "echo quite-an-ordinary-word", f"printf '%0185d %s\\n' 0 {token}", "test ! -e bad.txt"]
    world.landing = Landing(verify=["; ".join(says)], reruns=0)
    world.branch("feature", {"bad.txt": "x\n"})
    merge_id = world.land("feature")["merge_id"]
    world.prepare = refuse_with(f"https://me:{token}@pypi.test was not found.")
    world.branch("second", {"bad.txt": "y\n"})
    second = world.land("second")
    remember_secrets({})
    assert second["state"] == "failed"
    assert "GOT [redacted]" in world.merge(merge_id)["reason"]
    stored = b"".join(path.read_bytes() for path in world.project.home.glob("corral.db*"))
    assert b"ghp_" not in stored
    assert b"ordinary" not in stored
    assert token in world.log(merge_id), "the log is private, and as it was written"


def refuse_with(cause: str) -> Callable[[Path], dict[str, str]]:
    def refuse(_path: Path) -> dict[str, str]:
        raise CorralError("The packages could not be fetched.", cause=cause)

    return refuse


def test_a_red_target_is_looked_at_again_when_a_person_asks(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"test -e {tmp_path}/service"], reruns=0)
    world.branch("feature", {"new.txt": "x\n"})
    merge_id = world.submit("feature")
    world.run()
    assert world.merge(merge_id)["state"] == "held"
    (tmp_path / "service").touch()
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    world.run()
    assert world.merge(merge_id)["state"] == "landed"


def test_the_repair_of_a_red_target_lands_past_those_who_wait(world: World) -> None:
    world.landing = Landing(verify=["test ! -e broken.txt"], reruns=0)
    commit(world.root, {"broken.txt": "x\n"})
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("behind", {"behind.txt": "x\n"})
    held, behind = world.submit("feature"), world.submit("behind")
    world.run()
    git(world.root, "switch", "-q", "-c", "repair")
    git(world.root, "rm", "-q", "broken.txt")
    git(world.root, "commit", "-q", "-m", "mended")
    git(world.root, "switch", "-q", "main")
    world.skip(1)
    repair = world.submit("repair")
    world.until(behind, "landed")
    assert [world.merge(one)["state"] for one in (held, behind, repair)] == ["landed"] * 3
    assert world.settled[0] == (repair, "landed")


@pytest.mark.req("X10")
def test_a_branch_cannot_choose_what_verifies_it(world: World) -> None:
    """The commands are asked for by the target, and the branch's own are not looked at."""
    asked: list[str] = []

    def of_target(target: str) -> Landing:
        asked.append(target)
        return Landing(verify=["test ! -e bad.txt"], reruns=0)

    world.queue._verify_settings = of_target
    world.branch("feature", {"bad.txt": "x\n", ".corral/config.yaml": "landing: {verify: ['true']}\n"})
    assert world.land("feature")["state"] == "failed"
    assert set(asked) == {"refs/heads/main"}


def test_broken_settings_on_the_target_hold_the_line_until_they_are_mended(world: World) -> None:
    def broken(_target: str) -> Landing:
        raise ConfigInvalid("The configuration has 1 error.", cause="landing.verify: should be a list")

    good, world.queue._verify_settings = world.queue._verify_settings, broken
    world.branch("feature", {"new.txt": "x\n"})
    merge_id = world.submit("feature")
    world.run()
    assert world.merge(merge_id)["state"] == "held"
    assert "landing.verify" in world.merge(merge_id)["reason"]
    world.queue._verify_settings = good
    world.run()
    assert world.merge(merge_id)["state"] == "landed"


def test_one_targets_trouble_is_not_anothers(world: World) -> None:
    git(world.root, "branch", "release")
    world.branch("feature", {"src/a.py": "theirs\n"})
    world.branch("fix", {"fix.txt": "x\n"}, base="release")
    (world.root / "src/a.py").write_text("mine\n")
    held, other = world.submit("feature"), world.submit("fix", target="release")
    world.until(other, "landed")
    assert world.merge(held)["state"] == "held"
