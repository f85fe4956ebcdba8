"""Landing on a remote: its target is the truth, nothing there is overwritten, and a refusal is said in its words."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from corral.config import account
from corral.config.sections.sharing import Landing
from corral.config.sections.work import Tasks
from corral.coordination.settings import SettingsHolder
from corral.core.states import MergeState
from corral.landing import steering
from corral.store import events
from corral.store.rows.merges import RemoteRow
from corral.work.merges.store import intents, merges, remotes
from corral.work.tasks import tasks
from corral.work.tasks.wire import read_submissions
from tests.conftest import commit, commit_all, commit_on, git
from tests.integration.git.test_git_wrapper import shim
from tests.integration.landing_world import World, fingerprint, why
from tests.integration.test_direct_commits import VERIFY, tip_row, why_red
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable, put
from tests.support.programs import requires


class Origin:
    """A bare repository, and a colleague who pushes to it from a clone of their own."""

    def __init__(self, place: Path, root: Path) -> None:
        self.place, self.root, self.clone = place, root, place.with_name("colleague")
        git(place.parent, "clone", "-q", "--bare", str(root), str(place))
        git(root, "remote", "add", "origin", f"file://{place}")
        git(root, "fetch", "-q", "origin")

    def tip(self) -> str:
        return git(self.place, "rev-parse", "main")

    def push(self, files: dict[str, str]) -> str:
        """The colleague pushes a commit upon what is there."""
        if not self.clone.exists():
            git(self.place.parent, "clone", "-q", str(self.place), str(self.clone))
            for key in ("user.name", "user.email"):
                git(self.clone, "config", key, "colleague@x")
        git(self.clone, "fetch", "-q", "origin")
        git(self.clone, "reset", "-q", "--hard", "origin/main")
        sha = commit(self.clone, files, "a colleague's work")
        git(self.clone, "push", "-q", "origin", "HEAD:main")
        return sha

    def hook(self, name: str, body: str) -> Path:
        """A hook of the remote's own."""
        return executable(self.place / "hooks" / name, f"#!/bin/sh\n{body}\n")


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo, landing=Landing(remote="origin", verify=["true"], reruns=0))
    yield made
    made.close()


@pytest.fixture
def origin(world: World, tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin.git", world.root)


def remote(world: World) -> RemoteRow:
    return world.db.read(remotes.every)["main"]


def verify(world: World, *commands: str) -> None:
    world.landing = Landing(remote="origin", verify=list(commands), reruns=0)


def test_what_is_verified_lands_there_first_and_then_here(world: World, origin: Origin, tmp_path: Path) -> None:
    order = tmp_path / "order"
    origin.hook("pre-receive", f"git --git-dir={world.root}/.git rev-parse main > {order}")
    executable(world.root / ".git/hooks/pre-push", f"#!/bin/sh\necho hook >> {order}\n")
    before = world.tip()
    world.branch("feature", {"new.txt": "x\n"})
    commit(world.root, {"since.txt": "x\n"})
    git(world.root, "push", "-q", "--no-verify", "origin", "main")
    before = world.tip()
    order.unlink()
    merge = world.land("feature")
    assert merge["state"] == "landed" and merge["landed_sha"] == world.tip() == origin.tip() == world.tip("origin/main")
    assert order.read_text().split() == [before], (
        "the remote got it while the target here was where it was; no hook ran here"
    )
    assert (world.root / "new.txt").exists() and git(world.root, "status", "--porcelain") == ""
    (pushed,) = [row for row in world.db.read(events.listing) if row["kind"] == "target.pushed"]
    assert pushed["data"]["sha"] == origin.tip()
    assert world.db.read(intents.listing) == []


def test_without_a_remote_nothing_is_pushed(world: World, origin: Origin) -> None:
    before = origin.tip()
    world.landing = Landing(verify=["true"])
    world.branch("feature", {"new.txt": "x\n"})
    assert world.land("feature")["state"] == "landed" and origin.tip() == before != world.tip()


@pytest.mark.req("G9")
def test_what_others_pushed_is_built_upon_verified_and_kept(world: World, origin: Origin, tmp_path: Path) -> None:
    """Before the first look, and once more during the verification: the second push is met by the lease."""
    runs = tmp_path / "runs"
    origin.push({"theirs.txt": "1\n"})
    late = tmp_path / "late"
    verify(world, f"cat theirs.txt >> {runs}; ! test -e {late} || sh {late}; rm -f {late}")
    late.write_text(
        f"unset $(git rev-parse --local-env-vars); cd {origin.clone} && echo 2 > theirs.txt && git commit -qam later && "
        "git push -q origin HEAD:main\n"
    )
    world.branch("feature", {"new.txt": "x\n"})
    merge = world.land("feature")
    assert merge["state"] == "landed" and runs.read_text().split() == ["1", "2"], "each candidate had what was there"
    assert merge["landed_sha"] == world.tip() == origin.tip()
    assert git(origin.place, "show", "main:theirs.txt") == "2" and git(origin.place, "show", "main:new.txt") == "x"
    assert git(world.root, "log", "--format=%s", "--first-parent", "main").splitlines()[1] == "later"


def test_commits_of_a_person_are_verified_pushed_with_it_and_said(world: World, origin: Origin, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    verify(world, f"ls >> {runs}; sleep 0.2")
    world.branch("feature", {"new.txt": "x\n"})
    commit(world.root, {"mine.txt": "x\n"}, "my own work")
    before = origin.tip()
    merge_id = world.submit("feature")
    world.until(merge_id, "verifying")
    assert remote(world)["ahead"] == 1 and origin.tip() == before, "it is said before it is pushed"
    merge = world.finish(merge_id)
    assert merge["state"] == "landed" and "mine.txt" in runs.read_text().split()
    assert "origin got commits of main that it did not have: " in why(merge) and "my own work" in why(merge)
    assert git(origin.place, "show", "main:mine.txt") == "x" and remote(world)["ahead"] == 0


def test_what_a_person_commits_or_pushes_is_verified_when_seen(world: World, origin: Origin) -> None:
    verify(world, VERIFY)
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("waits", {"waits.txt": "x\n"})
    assert world.land("feature")["state"] == "landed"
    commit(world.root, {"mine.txt": "x\n"}, "my own work")
    before = origin.tip()
    world.queue.step(world.now())
    assert tip_row(world) is not None, "although nothing is queued"
    world.step_until(lambda: tip_row(world) is None)
    logs = [*(world.project.logs_dir / "merges").glob("tip-*/*.log")]
    assert len(logs) == 1 and world.tip() in logs[0].read_text() and origin.tip() == before, (
        "and nothing is pushed for it"
    )

    bad = origin.push({"broken.txt": "x\n"})
    waits = world.submit("waits")
    world.skip(60)
    world.step_until(lambda: why_red(world))
    assert f'is red since {bad[:12]} "a colleague\'s work" by' in why_red(world)
    assert "target.paused" in world.events() and world.merge(waits)["state"] == "queued"
    git(origin.clone, "rm", "-q", "broken.txt")
    git(origin.clone, "commit", "-q", "-m", "repair")
    git(origin.clone, "push", "-q", "origin", "HEAD:main")
    world.spend(90)
    assert world.merge(waits)["state"] == "landed" and tip_row(world) is None, (
        "a repair that is pushed is seen by itself"
    )
    assert world.tip() == origin.tip() and {"mine.txt", "waits.txt"} <= {path.name for path in world.root.iterdir()}


def test_what_others_push_while_nothing_waits_is_seen_verified_and_followed(world: World, origin: Origin) -> None:
    verify(world, VERIFY)
    world.branch("feature", {"new.txt": "x\n"})
    assert world.land("feature")["state"] == "landed"
    pushed = origin.push({"theirs.txt": "x\n"})
    world.watch(200)
    assert world.tip() != pushed, "an idle remote is left alone most of the time"
    world.watch(200)
    world.step_until(lambda: world.tip() == pushed)
    assert (world.root / "theirs.txt").exists() and tip_row(world) is None, "and the next task begins there"
    (followed,) = [row["data"] for row in world.db.read(events.listing) if row["kind"] == "target.followed"]
    assert followed == {"target": "main", "remote": "origin", "sha": pushed}
    assert "refs/remotes/origin/main" in git(world.root, "for-each-ref", f"--points-at={pushed}", "--format=%(refname)")

    (world.root / "mine.txt").write_text("my own\n")
    overlaps = origin.push({"mine.txt": "theirs\n"})
    world.watch(400)
    world.step_until(lambda: remote(world)["behind_sha"] == overlaps)
    assert "uncommitted changes" in str(remote(world)["behind_reason"]) and world.tip() == pushed
    (world.root / "mine.txt").unlink()
    world.watch(15)
    assert world.tip() == overlaps

    world.db.write(lambda conn: steering.freeze(conn, "main", "A release.", "me", world.now()))
    later = origin.push({"later.txt": "x\n"})
    world.watch(400)
    world.step_until(lambda: remote(world)["behind_sha"] == later)
    world.watch(30)
    assert world.tip() == overlaps and remote(world)["behind_reason"] == "main is frozen."
    world.db.write(lambda conn: steering.thaw(conn, "main", world.now()))
    world.watch(15)
    assert world.tip() == later

    red = origin.push({"broken.txt": "x\n"})
    world.watch(400)
    world.step_until(lambda: why_red(world))
    assert f'is red since {red[:12]} "a colleague\'s work" by' in why_red(world) and world.tip() == later


def test_an_idle_remote_is_asked_as_often_as_its_target_says(world: World, origin: Origin, tmp_path: Path) -> None:
    world.branch("feature", {"new.txt": "x\n"})
    assert world.land("feature")["state"] == "landed"
    asked = remote(world)["seen_at"]
    world.landing = world.landing.model_copy(update={"fetch_s": 0})
    world.watch(1000)
    assert remote(world)["seen_at"] == asked
    world.landing = world.landing.model_copy(update={"fetch_s": 60})
    origin.place.rename(tmp_path / "away")
    world.watch(1000)
    row = remote(world)
    assert "cannot be fetched" in str(row["reason"]) and row["tries"] < 10, "the wait grows"
    (tmp_path / "away").rename(origin.place)
    world.watch(400)
    assert remote(world)["reason"] is None and str(remote(world)["seen_at"]) > str(asked)


def test_what_went_two_ways_is_merged_first_or_waits_for_a_person(world: World, origin: Origin) -> None:
    world.branch("feature", {"new.txt": "x\n"})
    commit(world.root, {"mine.txt": "x\n"}, "my own work")
    theirs = origin.push({"theirs.txt": "x\n"})
    merge = world.land("feature")
    assert merge["state"] == "landed" and world.tip() == origin.tip() == merge["landed_sha"]
    assert set(git(world.root, "ls-tree", "--name-only", "main").split()) >= {"mine.txt", "theirs.txt", "new.txt"}
    git(world.root, "merge-base", "--is-ancestor", theirs, "main")

    world.branch("next", {"next.txt": "x\n"})
    commit(world.root, {"both.txt": "mine\n"})
    origin.push({"both.txt": "theirs\n"})
    world.skip(60)
    before = world.tip(), origin.tip()
    merge_id = world.submit("next")
    held = world.finish(merge_id)
    assert held["state"] == "held" and "conflicting commits: both.txt (add/add)" in why(held)
    assert "git pull --no-rebase origin main" in why(held) and (world.tip(), origin.tip()) == before
    git(world.root, "pull", "-q", "--no-rebase", "-X", "ours", "origin", "main")
    world.skip(60)
    world.spend(5)
    assert world.merge(merge_id)["state"] == "landed" and world.tip() == origin.tip()


def test_a_refusal_holds_with_its_words_and_is_tried_again(world: World, origin: Origin, tmp_path: Path) -> None:
    tries, runs = tmp_path / "tries", tmp_path / "runs"
    hook = origin.hook("pre-receive", f"echo x >> {tries}; echo 'main is frozen on Fridays'; exit 1")
    verify(world, f"echo x >> {runs}")
    world.branch("feature", {"new.txt": "x\n"})
    before, files = (world.tip(), origin.tip()), fingerprint(world.root)
    merge_id = world.submit("feature")
    held = world.finish(merge_id)
    assert (
        held["state"] == "held"
        and "pre-receive hook declined" in why(held)
        and "main is frozen on Fridays" in why(held)
    )
    assert "What to do: origin refuses it by a rule of its own: change that there, or have it get the branches" in why(
        held
    )
    assert (world.tip(), origin.tip()) == before and fingerprint(world.root) == files
    assert world.db.read(intents.listing) == [], "nothing is under way: it can be cancelled"
    asked = [remote(world)["look_at"]]
    for _ in range(3):
        world.watch(11)
        asked.append(remote(world)["look_at"])
    assert tries.read_text().count("x") < 5, "the wait grows"
    hook.unlink()
    world.skip(300)
    world.spend(5)
    assert world.merge(merge_id)["state"] == "landed" and origin.tip() == world.tip()
    assert runs.read_text() == "x\n", "what was verified is not verified again"
    assert remote(world)["reason"] is None and remote(world)["tries"] == 0


@pytest.mark.req("X15")
def test_a_remote_that_cannot_be_reached_holds_and_tells_no_secret(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    world.branch("feature", {"new.txt": "x\n"})
    git(world.root, "remote", "set-url", "origin", "https://me:hunter2secret@127.0.0.1:1/x.git?token=hunter3secret")
    merge_id = world.submit("feature")
    world.run()
    row = remote(world)
    assert world.merge(merge_id)["state"] == "held" and "main of origin cannot be fetched: " in why(
        world.merge(merge_id)
    )
    assert "127.0.0.1" in str(row["reason"]) and row["tries"] == 1
    texts = str(world.db.read(events.listing)) + str(row) + str(world.merge(merge_id))
    assert "hunter" not in texts
    git(world.root, "remote", "set-url", "origin", str(origin.place))
    world.skip(10)
    world.spend(5)
    assert world.merge(merge_id)["state"] == "landed" and origin.tip() == world.tip()

    verify(world, f"echo x >> {runs}")
    world.branch("second", {"second.txt": "x\n"})
    git(world.root, "remote", "set-url", "origin", "/nowhere")
    world.skip(60)
    second, before = world.submit("second"), world.tip()
    world.run()
    assert "cannot be fetched" in why(world.merge(second)) and (runs.read_text(), world.tip()) == ("x\n", before)
    git(world.root, "remote", "set-url", "origin", str(origin.place))
    world.skip(10)
    world.spend(5)
    assert world.merge(second)["state"] == "landed" and runs.read_text() == "x\n", "it was verified meanwhile"


def test_a_remote_that_does_not_answer_keeps_nobody_else_waiting(world: World, origin: Origin) -> None:
    world.spawn = lambda function: Thread(target=function).start()
    world.settings_of = lambda ref: Landing(remote="origin" if ref == "refs/heads/main" else None)
    git(world.root, "branch", "release")
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("other", {"other.txt": "x\n"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        git(world.root, "remote", "set-url", "origin", f"git://127.0.0.1:{silent.getsockname()[1]}/x")
        waiting, other = world.submit("feature"), world.submit("other", "release")
        assert world.until(other, "landed")["state"] == "landed"
        assert world.merge(waiting)["state"] == "queued"
    assert "cannot be fetched" in why(world.until(waiting, "held"))


@pytest.mark.parametrize(
    ("change", "words", "remedy"),
    [
        (["remote", "remove", "origin"], "it is not configured here", "git remote add origin"),
        (["remote", "set-url", "--push", "--add", "origin", "x"], None, None),
        (["config", "remote.origin.fetch", "+refs/*:refs/*"], "overwrites branches", "git config --replace-all"),
    ],
)
def test_a_remote_that_could_do_harm_is_not_asked(
    world: World, origin: Origin, change: list[str], words: str | None, remedy: str | None
) -> None:
    git(world.root, *change)
    if words is None:
        git(world.root, "remote", "set-url", "--push", "--add", "origin", "y")
        words, remedy = "several addresses", "git remote set-url --push"
    before = origin.tip(), world.tip()
    world.branch("feature", {"new.txt": "x\n"})
    held = world.land("feature")
    assert held["state"] == "held" and words in why(held) and str(remedy) in why(held)
    assert (origin.tip(), world.tip()) == before


def test_an_answer_that_was_lost_is_looked_up(
    world: World, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push arrives, and git fails all the same. Where the remote cannot be asked either, it stays unknown until it can."""
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("second", {"second.txt": "x\n"})
    gone, cut = tmp_path / "gone", tmp_path / "cut"
    with monkeypatch.context() as patched:
        lost = f'"$REAL" "$@"; ! test -e {cut} || mv {origin.place} {gone}; exit 128'
        shim(tmp_path / "bin", patched, f'case " $* " in *" push "*) {lost};; esac; exec "$REAL" "$@"')
        assert world.land("feature")["state"] == "landed" and origin.tip() == world.tip()
        cut.touch()
        before, merge_id = world.tip(), world.submit("second")
        held = world.finish(merge_id)
        assert held["state"] == "held" and "whether it has got what lands on main is not known" in why(held)
        assert world.tip() == before and len(world.db.read(intents.listing)) == 1
    gone.rename(origin.place)
    world.skip(10)
    world.spend(5)
    landed = world.merge(merge_id)["landed_sha"]
    assert landed == origin.tip() == world.tip()
    assert git(origin.place, "log", "--format=%s", "main").splitlines().count("work on second") == 1


def test_what_a_remote_lost_is_not_brought_back(world: World, origin: Origin) -> None:
    base = origin.tip()
    world.branch("feature", {"new.txt": "x\n"})
    world.branch("next", {"next.txt": "x\n"})
    assert world.land("feature")["state"] == "landed"
    git(origin.place, "update-ref", "refs/heads/main", base)
    world.skip(60)
    merge_id = world.submit("next")
    held = world.finish(merge_id)
    assert held["state"] == "held" and "main of origin was rewound" in why(held) and origin.tip() == base
    git(world.root, "push", "-q", "origin", "main")
    world.skip(60)
    world.spend(5)
    assert world.merge(merge_id)["state"] == "landed" and origin.tip() == world.tip()


@pytest.mark.req("G8")
def test_uncommitted_work_holds_what_would_overwrite_it_before_the_push(world: World, origin: Origin) -> None:
    world.branch("feature", {"src/a.py": "theirs\n"})
    world.branch("other", {"other.txt": "x\n"})
    (world.root / "src/a.py").write_text("mine\n")
    before = origin.tip()
    held, other = world.submit("feature"), world.submit("other")
    world.run()
    world.skip(3)
    world.run()
    assert world.merge(held)["state"] == "held" and "uncommitted changes in" in why(world.merge(held))
    assert world.merge(other)["state"] == "landed" and origin.tip() == world.tip() != before
    git(world.root, "checkout", "-q", "--", "src/a.py")
    world.skip(11)
    world.until(held, "landed")
    assert origin.tip() == world.tip()


def test_what_landed_there_comes_here_when_the_way_is_free(world: World, origin: Origin) -> None:
    """The person writes where it lands while it is pushed: it has landed, and the target here follows later."""
    origin.hook("post-receive", f"echo mine > {world.root}/src/a.py")
    world.branch("feature", {"src/a.py": "theirs\n"})
    before = world.tip()
    merge = world.land("feature")
    assert merge["state"] == "landed" and merge["landed_sha"] == origin.tip() and world.tip() == before
    assert "They landed on origin, and not here yet: uncommitted changes in" in why(merge)
    assert remote(world)["behind_sha"] == origin.tip() and (world.root / "src/a.py").read_text() == "mine\n"
    world.queue = world.new_queue()
    world.queue.recover(world.now())
    world.queue.step(world.now())
    assert not world.queue.rewinds.open, "the next daemon does not take it for lost"
    git(world.root, "checkout", "-q", "--", "src/a.py")
    world.watch(25)
    assert world.tip() == origin.tip() and (world.root / "src/a.py").read_text() == "theirs\n"
    assert remote(world)["behind_sha"] is None and not world.queue.rewinds.open

    here = f"cd {world.root} && git -c user.name=x -c user.email=x commit -q --allow-empty -m mine"
    hook = origin.hook("post-receive", f"unset $(git rev-parse --local-env-vars); {here}")
    world.branch("second", {"second.txt": "x\n"})
    merge = world.land("second")
    assert merge["state"] == "landed" and "main moved here meanwhile" in why(merge) and origin.tip() != world.tip()
    hook.unlink()
    world.branch("third", {"third.txt": "x\n"})
    assert world.land("third")["state"] == "landed" and origin.tip() == world.tip()
    assert "mine" in git(world.root, "log", "--format=%s", "main").splitlines() and (world.root / "second.txt").exists()


def test_branches_alone_are_published_once_they_have_landed(world: World, origin: Origin, tmp_path: Path) -> None:
    world.landing = Landing(remote="origin", push="branch", verify=["! test -e red.txt"], reruns=0)
    tip = origin.tip()
    names = ("corral/one", "corral/red", "corral/taken")
    (wanted,) = read_submissions([{"title": "A task", "command": "true"}])
    ids = {
        name: world.db.write(lambda conn: tasks.submit(conn, wanted, world.now(), Tasks()))["task_id"] for name in names
    }
    heads = {name: world.branch(name, {f"{name[7:]}.txt": "x\n"}) for name in names}
    world.branch("mine", {"mine.txt": "x\n"})
    git(origin.place, "update-ref", "refs/heads/corral/taken", origin.push({"theirs.txt": "x\n"}))
    git(origin.place, "update-ref", "refs/heads/main", tip)
    refuse = origin.hook("pre-receive", "echo no branches today; exit 1")
    states = {name: world.land(name, task_id=id_)["state"] for name, id_ in ids.items()}
    assert states == {"corral/one": "landed", "corral/red": "failed", "corral/taken": "landed"}
    assert world.land("mine")["state"] == "landed"
    late = world.offer("corral/late", {"late.txt": "x\n"})
    world.db.write(lambda conn: remotes.to_publish(conn, [late], "origin", world.now()))
    waiting = world.db.read(remotes.unpublished)
    assert late not in {row["merge_id"] for row in waiting}, "it has not landed yet"
    world.db.write(lambda conn: merges.finish(conn, late, MergeState.CANCELLED, now=world.now()))
    assert "no branches today" in str(waiting[0]["reason"]) and waiting[0]["branch"] == "corral/one"
    refuse.unlink()
    world.skip(300)
    world.queue.step(world.now())
    there = dict(
        line.split()
        for line in git(origin.place, "for-each-ref", "--format=%(refname:short) %(objectname)").splitlines()
    )
    assert there["corral/one"] == heads["corral/one"] and there["main"] == tip, "the target itself is not pushed"
    assert there["corral/taken"] != heads["corral/taken"], "a branch that others have is left alone"
    assert not {"mine", "corral/red"} & set(there) and world.db.read(remotes.unpublished) == []


@pytest.mark.req("X7")
def test_a_remote_of_a_tracked_file_is_approved_first_and_ones_own_is_not(world: World, origin: Origin) -> None:
    (world.root / ".corral/config.yaml").write_text("landing:\n  remote: origin\n")
    commit_all(world.root, "settings", ".corral/config.yaml", force=True)
    git(world.root, "push", "-q", "origin", "main")
    holder = SettingsHolder(world.project, world.repo(), {})
    world.settings_of = lambda ref: holder.for_target(ref).landing
    world.branch("feature", {"new.txt": "x\n"})
    before, merge_id = origin.tip(), world.submit("feature")
    world.spend(3)
    assert "`corral trust`" in why(world.merge(merge_id)) and origin.tip() == before == world.tip()
    holder.answers.approve(world.project.common_dir, holder.untrusted("refs/heads/main"))
    world.skip(300)
    world.spend(5)
    assert world.merge(merge_id)["state"] == "landed" and origin.tip() == world.tip() != before
    put(account.home() / ".corral/config.yaml", "landing:\n  remote: origin\n")
    (world.root / ".corral/config.yaml").unlink()
    assert SettingsHolder(world.project, world.repo(), {}).untrusted() == []


@pytest.mark.req("G18")
def test_files_in_lfs_wait_for_git_lfs(world: World, origin: Origin) -> None:
    world.branch("feature", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": "pointer\n"})
    before = origin.tip()
    held = world.land("feature")
    assert held["state"] == "held" and "git lfs is not installed" in why(held) and origin.tip() == before == world.tip()


@requires("git-lfs")
def test_objects_of_lfs_are_there_before_the_commit(world: World, origin: Origin, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    origin.hook("pre-receive", f"find {origin.place}/lfs -type f > {seen}")
    git(world.root, "lfs", "install", "--local", "--skip-smudge")
    world.branch("feature", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": "large\n"})
    assert git(world.root, "show", "feature:a.bin").startswith("version https://git-lfs")
    assert world.land("feature")["state"] == "landed" and origin.tip() == world.tip()
    assert len(seen.read_text().split()) == 1


def test_status_and_doctor_say_that_a_remote_cannot_be_reached(house: Coordinated, tmp_path: Path) -> None:
    """Of the daemon, whose fetches and pushes no step waits for."""
    git(tmp_path, "clone", "-q", "--bare", str(house.root), "origin.git")
    git(house.root, "remote", "add", "origin", "/nowhere")
    house.configure("landing:\n  remote: origin\n")
    commit_on(house.root, "side", {"src/a.py": "a = 2\n"})
    merge_id = house.json("merge", "submit", "side")["merge_id"]
    need = eventually(lambda: [n for n in house.json("status")["needs_you"] if n["kind"] == "remote_target"])[0]
    assert "main of origin cannot be fetched" in need["what"] and "git fetch origin" in need["remedy"]
    checks = json.loads(house.run("doctor", "--json", check=False).stdout)
    assert {c["status"] for c in checks if c["check"] in ("remote", "remote target")} == {"error"}
    git(house.root, "remote", "set-url", "origin", str(tmp_path / "origin.git"))
    house.run("merge", "retry", merge_id)
    landed = eventually(lambda: (row := house.json("merge", "detail", merge_id))["state"] == "landed" and row)
    assert (
        git(tmp_path / "origin.git", "rev-parse", "main")
        == landed["landed_sha"]
        == git(house.root, "rev-parse", "main")
    )
    checks = json.loads(house.run("doctor", "--json", check=False).stdout)
    assert [c["status"] for c in checks if c["check"].startswith("remote")] == ["ok"]
