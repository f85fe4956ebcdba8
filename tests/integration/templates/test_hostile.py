"""Templates that want to harm: nothing of them is installed, runs, or hangs; each refusal gives its reason."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, commit_all, git
from tests.integration.templates.repositories import FILES, release, template
from tests.support.coordinated import Coordinated
from tests.support.files import executable


@pytest.fixture
def house(repo: Path) -> Coordinated:
    return Coordinated(repo)


def refused(house: Coordinated, address: str, *reasons: str, **env: Any) -> str:
    """Install it in vain; returns the error."""
    done = house.run("init", "--template", address, "--yes", check=False, **env)
    assert done.returncode not in (0, 70), done.stdout
    assert all(reason in done.stderr for reason in reasons), done.stderr
    assert "Traceback" not in done.stderr
    assert not (house.root / ".corral").exists() and not (house.root / ".claude").exists()
    return str(done.stderr)


@pytest.mark.req("NFR-SEC-004")
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ext::sh -c touch% pwned", "makes git run a program"),
        ("--upload-pack=touch pwned", "begins with `-`"),
        ("https://name:secret@example.test/x.git", "contains credentials"),
        ("ftp://example.test/x.git", "no transport"),
        ("ssh://-oProxyCommand=touch pwned/x", "names no host"),
        ("-oProxyCommand=x:y", "begins with `-`"),
        ("https://example.test/x.git#../../etc", "leads out"),
        ("/nowhere/at/all", "does not exist"),
        ("a\nb", "control character"),
    ],
)
def test_addresses(house: Coordinated, address: str, reason: str) -> None:
    refusal = refused(house, address, reason)
    assert "secret" not in refusal
    assert not list(house.root.rglob("pwned"))


def test_a_version_is_no_option(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours")
    for version in ("--upload-pack=touch pwned", "v1..v2", "main:refs/heads/x", "a b"):
        done = house.run("init", "--template", str(source), f"--version={version}", "--yes", check=False)
        assert done.returncode == 2 and "is no version" in done.stderr
    assert not (house.root / ".corral").exists()


@pytest.mark.req("NFR-SEC-004")
def test_links_and_submodules(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours")
    (source / ".claude/agents/out.md").symlink_to("/etc/passwd")
    git(source, "add", "--all")
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{git(source, 'rev-parse', 'HEAD')},.claude/skills/sub")
    (source / ".gitmodules").write_text(
        '[submodule "sub"]\n\tpath = .claude/skills/sub\n\turl = git://192.0.2.1/hangs\n'
    )
    commit_all(source, "links", ".gitmodules")
    git(source, "tag", "v9")
    refused(house, str(source), "out.md: is a symbolic link", "sub: is a submodule")


@pytest.mark.slow("git commits 200 MB, and then 2100 files")
def test_a_template_of_too_much(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours", None)
    with (source / ".claude/agents/big.md").open("wb") as file:
        file.truncate(200_000_000)
    commit_all(source, "much of nothing, small once it is packed")
    refused(house, str(source), "20 MB")
    release(source, "v1", {f".claude/skills/s{n}/SKILL.md": f"{n}\n" for n in range(2100)})
    git(source, "rm", "-q", ".claude/agents/big.md")
    release(source, "v2", {"README.md": "x\n"})
    refused(house, str(source), "more than 2000 files")


@pytest.mark.req("FR-TMPL-004")
@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x]\nb: [*a, *a]\n",
        "!!python/object/apply:os.system ['touch pwned']\n",
        "{" * 3000,
        "\x00",
        "landing: [\n",
    ],
)
def test_hostile_yaml(house: Coordinated, tmp_path: Path, text: str) -> None:
    source = template(tmp_path / "ours", **{".corral/config.yaml": text})
    refused(house, str(source), ".corral/config.yaml")
    assert not list(house.root.rglob("pwned"))


def test_no_hook_and_no_filter_of_a_template_runs(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours", **{".gitattributes": "* filter=evil\n"})
    for hook in ("post-checkout", "post-merge", "reference-transaction", "pre-auto-gc", "post-index-change"):
        executable(source / ".git/hooks" / hook, f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    git(source, "config", "filter.evil.smudge", f"touch {tmp_path}/pwned")
    git(source, "config", "core.fsmonitor", f"touch {tmp_path}/pwned")
    (tmp_path / "pwned").unlink(missing_ok=True)
    house.run("init", "--template", str(source), "--yes")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.req("FR-TMPL-001")
@pytest.mark.parametrize("kind", ["tar.gz", "zip", "folder"])
def test_an_archive_or_a_folder_is_a_template_too(house: Coordinated, tmp_path: Path, kind: str) -> None:
    place = tmp_path / f"ours.{kind}"
    if kind == "tar.gz":
        with tarfile.open(place, "w:gz") as archive:
            for name, text in FILES.items():
                member = tarfile.TarInfo(f"ours-1.0/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
    elif kind == "zip":
        with zipfile.ZipFile(place, "w") as zipped:
            for name, text in FILES.items():
                zipped.writestr(name, text)
    else:
        for name, text in FILES.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    house.run("init", "--template", str(place), "--yes")
    assert (house.root / ".corral/templates/page.yaml").read_text() == FILES[".corral/templates/page.yaml"]
    assert set(house.json("template", "verify")["files"].values()) == {"unchanged"}


@pytest.mark.req("NFR-SEC-004")
@pytest.mark.parametrize(
    "name", ["../out.md", "/tmp/out.md", ".claude/agents/../../../out.md", ".git/hooks/post-commit"]
)
def test_an_archive_does_not_lead_out(house: Coordinated, tmp_path: Path, name: str) -> None:
    place = tmp_path / "ours.tar"
    with tarfile.open(place, "w") as archive:
        for path, text in {**FILES, name: "x"}.items():
            member = tarfile.TarInfo(path)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    refused(house, str(place), "the path")


@pytest.mark.req("NFR-SEC-004", "FR-TMPL-003")
def test_a_cache_that_was_changed_is_refused(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours")
    house.run("init", "--template", str(source), "--yes")
    (cached,) = (Path.home() / ".cache/corral/templates").glob("*/repo.git")
    pack = next(cached.glob("objects/pack/*.pack"))
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    pack.chmod(0o644)
    pack.write_bytes(data)
    for args in (["template", "diff"], ["template", "verify"], ["template", "update", "--yes"]):
        done = house.run(*args, check=False)
        assert done.returncode == 2 and "was changed or is damaged" in done.stderr, (args, done.stderr)
    house.run("template", "cache", "--clear")
    assert house.json("template", "verify")["remote"] == "same"


@pytest.mark.req("NFR-SEC-004")
def test_settings_in_the_cache_make_git_run_nothing(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours")
    house.run("init", "--template", str(source), "--yes")
    (cached,) = (Path.home() / ".cache/corral/templates").glob("*/repo.git")
    with (cached / "config").open("a") as file:
        file.write(f"[core]\n\tsshCommand = touch {tmp_path}/pwned\n\talternateRefsCommand = touch {tmp_path}/pwned\n")
        file.write(f"[uploadpack]\n\tpackObjectsHook = touch {tmp_path}/pwned\n[include]\n\tpath = {tmp_path}/more\n")
    release(source, "v2", {"README.md": "x\n"})
    house.run("template", "update", "--yes")
    assert not (tmp_path / "pwned").exists() and "pwned" not in (cached / "config").read_text()


def test_the_projects_folders_do_not_lead_out(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours")
    (tmp_path / "elsewhere").mkdir()
    (house.root / ".claude").mkdir()
    (house.root / ".claude/agents").symlink_to(tmp_path / "elsewhere")
    assert "would be outside" in house.run("init", "--template", str(source), "--yes").stdout
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.req("NFR-SEC-004")
def test_a_lock_with_other_checksums_is_refused(house: Coordinated, tmp_path: Path) -> None:
    source = template(tmp_path / "ours")
    house.run("init", "--template", str(source), "--yes")
    lock = house.root / ".corral/template.lock"
    content = json.loads(lock.read_text())
    content["files"][".corral/templates/page.yaml"] = "0" * 64
    lock.write_text(json.dumps(content))
    done = house.run("template", "verify", check=False)
    assert done.returncode == 2 and "page.yaml differs" in done.stderr
    other = commit(source, {"README.md": "y\n"})
    lock.write_text(json.dumps({**content, "commit": other}))
    assert "is not the one that was installed" in house.run("template", "diff", check=False).stderr
    lock.write_text("{")
    assert "cannot be read" in house.run("template", "diff", check=False).stderr
