"""Corral writes through no symbolic link below ``.corral``, says so first, and never says ``removed`` of what stays."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import git, worktrees_of
from tests.integration import taken_places
from tests.integration.taken_places import state
from tests.support.coordinated import Coordinated


def needs(house: Coordinated) -> list[dict[str, str]]:
    """What needs a person; not the session without a bridge, which takes a while to show."""
    return [need for need in house.json("status")["needs_you"] if need["kind"] != "unguarded_session"]


def test_a_daemon_whose_own_folders_are_links_does_not_start_and_says_what_to_type(
    house: Coordinated, tmp_path: Path
) -> None:
    for name in ("logs", "run"):
        elsewhere = tmp_path / name
        shutil.move(house.root / ".corral" / name, elsewhere)
        before = sorted(elsewhere.rglob("*"))
        (house.root / ".corral" / name).symlink_to(elsewhere)
        refused = house.run("status", check=False)
        assert refused.returncode != 0 and f".corral/{name}" in refused.stderr and "link" in refused.stderr
        assert sorted(elsewhere.rglob("*")) == before
        (house.root / ".corral" / name).unlink()
        (house.root / ".corral" / name).mkdir(mode=0o700)
    assert house.run("status").returncode == 0


def test_links_and_taken_places_stand_first_and_remove_never_says_removed(house: Coordinated, tmp_path: Path) -> None:
    place = Path(house.json("worktree", "create", "mine")["path"])
    kept = taken_places.link(house.root, place)
    before = state(kept), git(house.root, "for-each-ref")

    shown = house.run("worktree", "remove", "mine", check=False)
    assert shown.returncode == 4 and "not removed" in shown.stderr and f"mv {place}" in shown.stderr
    assert "removed mine" not in shown.stdout
    answer = house.ask("DELETE", "/worktrees/mine")
    assert answer["removed"] is False and str(kept) in answer["note"]
    house.hook("SessionStart", "s1", source="startup")
    reply = house.hook("WorktreeRemove", "s1", worktree_path=str(place))
    assert str(kept) in reply["systemMessage"]
    assert "was not removed" in str(house.hook("UserPromptSubmit", "s1", prompt="go on"))
    assert str(kept) in house.run("worktree", "list").stdout
    (need,) = needs(house)
    assert need["kind"] == "kept_worktree" and str(kept) in need["what"] and f"mv {place}" in need["remedy"]
    assert [risk["what"] for risk in house.ask("GET", "/worktrees/at-risk")] == ["worktree mine"]
    refused = house.run("uninstall", "--yes", check=False)
    assert refused.returncode != 0 and "mine" in refused.stderr and kept.is_dir()
    assert (state(kept), git(house.root, "for-each-ref")) == before
    place.unlink()
    assert "removed mine" in house.run("worktree", "remove", "mine").stdout
    assert needs(house) == []

    shutil.rmtree(worktrees_of(house.root))
    (tmp_path / "elsewhere").mkdir()
    worktrees_of(house.root).symlink_to(tmp_path / "elsewhere")
    (checked,) = (check for check in house.json("doctor", check=False) if check["check"] == "worktrees")
    assert f"{worktrees_of(house.root)}: the name is taken" in checked["message"]
    house.carry_out("lands", "echo x > x.txt")
    assert git(house.root, "show", "main:x.txt") == "x" and not list((tmp_path / "elsewhere").iterdir())


def test_a_worktree_that_git_does_not_know_is_named_before_an_uninstall(house: Coordinated) -> None:
    place = Path(house.json("worktree", "create", "half-made")["path"])
    (place / ".git").rename(place.parent / "its-git")
    (risk,) = house.ask("GET", "/worktrees/at-risk")
    assert risk["what"] == "worktree half-made"
    refused = house.run("uninstall", "--yes", check=False)
    assert "half-made" in refused.stderr and "corral init" not in refused.stderr
