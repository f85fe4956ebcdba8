"""What is held until the way is free: dirt where it would land, a git at work, a target that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import ConfigInvalid
from corral.core.remedies import remedy_in
from corral.landing import pauses
from corral.landing.standing import of_open
from corral.work.merges.store import intents
from tests.conftest import commit, git
from tests.integration.landing_world import World, fingerprint, listed, why


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
    merge = world.finish(merge_id)
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
    assert world.finish(merge_id)["state"] == "landed"
    assert (world.root / theirs).read_text() == "theirs\n"
    assert world.events().count("merge.held") == 1


@pytest.mark.req("I8")
def test_a_garbage_collection_takes_no_candidate_that_waits(world: World, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    world.landing = Landing(verify=[f"echo x >> {runs}"])
    world.branch("feature", {"src/a.py": "theirs\n"})
    world.branch("other", {"other.txt": "x\n"})
    git(world.root, "branch", "stable")
    commit(world.root, {"since.txt": "x\n"})  # so that what lands is a merge, which no branch has
    (world.root / "src/a.py").write_text("mine\n")
    merge_id = world.submit("feature")
    held = world.finish(merge_id)
    assert held["state"] == "held"
    elsewhere = world.submit("other", "stable")  # its verification takes over the worktree that had the candidate
    assert world.finish(elsewhere)["state"] == "landed"
    git(world.root, "reflog", "expire", "--expire=now", "--all")
    git(world.root, "gc", "-q", "--prune=now")
    git(world.root, "checkout", "-q", "--", "src/a.py")
    world.run()
    assert world.merge(merge_id)["landed_sha"] == held["candidate_sha"] == world.tip()
    assert runs.read_text() == "x\n" * 2, "nothing was verified twice"


@pytest.mark.req("G8")
@pytest.mark.parametrize("way", ["moved away", "committed elsewhere", "staged as it would land", "merged by hand"])
def test_the_way_is_free_again(world: World, way: str) -> None:
    world.branch("feature", {"src/a.py": "theirs\n"})
    mine = world.root / "src/a.py"
    mine.write_text("mine\n")
    merge_id = world.submit("feature")
    assert world.finish(merge_id)["state"] == "held"
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
    assert world.finish(merge_id)["state"] == "landed"
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
    for merge_id in (first, second):  # of one chain
        assert world.merge(merge_id)["state"] == "held" and "a git command is running" in why(world.merge(merge_id))
    (world.root / ".git/index.lock").unlink()
    world.run()
    assert world.settled == [(first, "landed"), (second, "landed")]


def test_a_later_request_of_the_same_branch_takes_the_place_of_one_whose_landing_did_not_succeed(world: World) -> None:
    """One that is landing is beyond recall; that it is held is known only afterwards."""
    head = world.branch("feature", {"src/a.py": "theirs\n"})
    (world.root / "src/a.py").write_text("mine\n")
    first, tip = world.submit("feature"), world.tip()
    intent = {"target": "main", "old_sha": tip, "new_sha": head, "merge_ids": [first]}
    world.db.write(lambda conn: intents.intend(conn, **intent, now=world.now()))  # type: ignore[arg-type]
    git(world.root, "branch", "-f", "feature", world.branch("other", {"other.txt": "x\n"}))
    second = world.submit("feature")
    assert (world.merge(first)["state"], world.merge(first)["replaced_by"]) == ("queued", second)
    for _ in range(3):
        world.run()
        world.skip(10)
    assert world.settled == [(first, "superseded"), (second, "landed")]


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
    merge_id = world.offer("feature", {"new.txt": "x\n"})
    world.until(merge_id, "verifying")
    mine = commit(world.root, {"mine.txt": "mine\n"})
    gate.touch()
    merge = world.finish(merge_id)
    assert merge["state"] == "landed"
    assert git(world.root, "rev-parse", "main^1") == mine
    assert world.receipt(merge_id)["tree"] == git(world.root, "rev-parse", "main^{tree}")
    assert "mine" in world.receipt_log(merge_id).read_text()


def test_a_target_that_was_deleted_holds_its_line(world: World) -> None:
    git(world.root, "branch", "release")
    merge_id = world.offer("feature", {"new.txt": "x\n"}, target="release")
    git(world.root, "branch", "-D", "release")
    assert world.finish(merge_id)["state"] == "held"
    assert "no branch release" in why(world.merge(merge_id))
    git(world.root, "branch", "release")
    assert world.finish(merge_id)["state"] == "landed"


def test_a_landed_branch_stays_while_it_is_to_land_elsewhere_too(world: World) -> None:
    git(world.root, "branch", "release")
    world.own_branch("corral/both", {"src/a.py": "theirs\n"})
    git(world.root, "worktree", "add", "-q", str(world.root.parent / "release"), "release")
    (world.root.parent / "release/src/a.py").write_text("mine\n")
    held, landed = world.submit("corral/both", "release"), world.submit("corral/both")
    world.spend(10)
    assert (world.merge(held)["state"], world.merge(landed)["state"]) == ("held", "landed")
    assert world.tip("corral/both") == world.merge(held)["head_sha"]
    git(world.root.parent / "release", "checkout", "-q", "--", "src/a.py")
    assert world.finish(held)["state"] == "landed"
    assert git(world.root, "for-each-ref", "refs/heads/corral/both") == ""


@pytest.mark.parametrize("trouble", ["gone", "settings"])
def test_what_keeps_every_request_of_a_target_is_told_of_each_and_promised_to_none(world: World, trouble: str) -> None:
    for name in ("first", "second"):
        world.branch(name, {f"{name}.txt": "x\n"})
    ids = [world.submit(name) for name in ("first", "second")]
    settings_of, broken = (
        world.settings_of,
        ConfigInvalid("The configuration has 1 error.", cause="No.", remedy="Fix it."),
    )

    def refuse(_target: str) -> Landing:
        raise broken

    if trouble == "gone":
        git(world.root, "branch", "-m", "main", "trunk")
    else:
        world.settings_of = refuse
    world.queue.step(world.now())
    shown = {row["merge_id"]: row for row in listed(world.db)}
    for merge_id in ids:
        assert shown[merge_id]["reason"].startswith("Nothing lands on main. ") and remedy_in(shown[merge_id]["reason"])
    standing = world.db.read(lambda conn: of_open(conn, 10, 0.0, world.now()))
    assert [place["expected_s"] for _, place in standing] == [None, None]
    assert all(place["waits_for"].startswith("Nothing lands on main. ") for _, place in standing)
    if trouble == "gone":
        git(world.root, "branch", "-m", "trunk", "main")
    world.settings_of = settings_of
    world.run()
    assert [world.merge(merge_id)["state"] for merge_id in ids] == ["landed"] * 2
    assert world.db.read(pauses.stops) == {}
