"""Where allowed signers are configured, only a version that one of them signed is installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import commit, git
from tests.integration.templates.repositories import release, template
from tests.support.coordinated import Coordinated
from tests.support.files import put
from tests.support.programs import requires

pytestmark = requires("ssh-keygen")


class Keys:
    """Keys of a maintainer and of a stranger, and the file that allows the maintainer's."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.maintainer, self.stranger = folder / "maintainer", folder / "stranger"
        for key in (self.maintainer, self.stranger):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        self.allowed = folder / "allowed"
        public = self.maintainer.with_suffix(".pub").read_text()
        self.allowed.write_text(f'ours@example.org namespaces="git" {public}')

    def tag(self, source: Path, name: str, key: Path | None = None) -> None:
        """Sign the commit that is checked out as a version."""
        signing = ["-c", "gpg.format=ssh", "-c", f"user.signingKey={key or self.maintainer}"]
        git(source, *signing, "tag", "-s", "-m", name, name)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


@pytest.fixture
def house(repo: Path, keys: Keys) -> Coordinated:
    put(Path.home() / ".corral" / "config.yaml", f"templates: {{allowed_signers: {keys.allowed}}}\n")
    return Coordinated(repo)


def refused(house: Coordinated, source: Path, reason: str, *args: str) -> None:
    done = house.run("init", "--template", str(source), "--yes", *args, check=False)
    assert done.returncode == 2 and reason in done.stderr, done.stderr
    assert not (house.root / ".corral").exists()


@pytest.mark.req("NFR-SEC-004")
def test_a_signed_tag_is_installed_and_its_signer_recorded(house: Coordinated, tmp_path: Path, keys: Keys) -> None:
    source = template(tmp_path / "ours", None)
    keys.tag(source, "v1.0.0")
    answer = house.json("init", "--template", str(source), "--yes")["template"]
    assert answer["signer"].startswith("ours@example.org (SHA256:")
    assert json.loads((house.root / ".corral/template.lock").read_text())["signer"] == answer["signer"]
    house.run("template", "cache", "--clear")
    assert house.json("template", "verify")["signer"] == answer["signer"]
    release(source, "v1.1.0", {"README.md": "Nobody signed this.\n"})
    done = house.run("template", "update", "--yes", check=False)
    assert done.returncode == 2 and "no signature of an SSH key" in done.stderr
    assert house.json("template", "verify")["version"] == "v1.0.0"


@pytest.mark.req("NFR-SEC-004")
def test_a_signed_commit_is_as_good_as_a_signed_tag(house: Coordinated, tmp_path: Path, keys: Keys) -> None:
    source = template(tmp_path / "ours", None)
    git(source, "config", "gpg.format", "ssh")
    git(source, "config", "user.signingKey", str(keys.maintainer))
    git(source, "commit", "-q", "--amend", "-S", "-m", "signed")
    git(source, "tag", "-a", "-m", "not signed itself", "v1.0.0")
    assert "ours@example.org" in house.json("init", "--template", str(source), "--yes")["template"]["signer"]


@pytest.mark.req("NFR-SEC-004")
def test_who_is_not_allowed_is_refused(house: Coordinated, tmp_path: Path, keys: Keys) -> None:
    source = template(tmp_path / "ours")
    refused(house, source, "no signature of an SSH key")
    commit(source, {"README.md": "2\n"})
    keys.tag(source, "v2.0.0", keys.stranger)
    refused(house, source, "signed by nobody who is allowed to")
    (tmp_path / "plain").mkdir()
    refused(house, tmp_path / "plain", "cannot be signed")
    keys.allowed.unlink()
    refused(house, source, "cannot be read")


@pytest.mark.req("NFR-SEC-004")
def test_an_old_signature_does_not_pass_for_a_new_version(house: Coordinated, tmp_path: Path, keys: Keys) -> None:
    """A server gives the signed tag object of an old version the name of a newer one."""
    source = template(tmp_path / "ours", None)
    keys.tag(source, "v1.0.0")
    git(source, "update-ref", "refs/tags/v9.0.0", git(source, "rev-parse", "v1.0.0"))
    refused(house, source, "made for another name")


@pytest.mark.req("NFR-SEC-004")
def test_the_files_of_a_project_do_not_switch_it_off(house: Coordinated, tmp_path: Path, keys: Keys) -> None:
    source = template(tmp_path / "ours", None)
    keys.tag(source, "v1.0.0")
    house.run("init", "--template", str(source), "--yes")
    config = house.root / ".corral/config.yaml"
    config.write_text(config.read_text() + "\ntemplates: {allowed_signers: null}\n")
    release(source, "v1.1.0", {"README.md": "Nobody signed this.\n"})
    assert house.run("template", "update", "--yes", check=False).returncode == 2
