"""Answers without an end, slow ones, and archives that are larger than they look: memory, time and disk stay bounded."""

from __future__ import annotations

import gzip
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.errors import GitFailed
from corral.git.remote import reading, store
from corral.git.remote.address import parse
from corral.git.remote.store import TemplateStore
from tests.integration.templates.flood import Flood, flood, measured
from tests.support.coordinated import Coordinated, eventually

MOST_MEMORY = 700_000_000
"""The bound of 512 MB, and the command itself. Without a bound it is 1.4 GB and more."""


@pytest.fixture
def server() -> Iterator[Flood]:
    with flood() as made:
        yield made


@pytest.mark.req("NFR-SEC-004", "FR-TMPL-001")
@pytest.mark.parametrize(
    ("how", "name"),
    [("headers", "ours.git"), ("line", "ours.git"), ("body", "ours.git"), ("redirect", "ours.tar.gz"),
     ("archive", "ours.zip")],
)  # fmt: skip
def test_an_answer_without_an_end_takes_no_more_than_its_bound(repo: Path, server: Flood, how: str, name: str) -> None:
    done = measured(Coordinated(repo), "init", "--template", server.url(how, name), "--yes")
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    assert "The template http://127.0.0.1" in done.stderr and "Nothing was installed" in done.stderr, done.stderr
    assert done.peak < MOST_MEMORY, f"{done.peak >> 20} MB"
    assert done.left == []
    eventually(lambda: server.gone)
    assert not (repo / ".corral").exists()
    cached = Path.home() / ".cache/corral/templates"
    assert sum(file.stat().st_size for file in cached.rglob("*") if file.is_file()) < 1_000_000
    assert not [*cached.rglob("*.lock"), *cached.rglob("tmp_*")]


@pytest.mark.req("NFR-SEC-004")
def test_a_small_archive_with_a_huge_header_takes_no_more_than_its_bound(repo: Path, tmp_path: Path) -> None:
    """A tar's header of this kind is read into memory as a whole, and zeros take a thousandth of their size."""
    place, size = tmp_path / "ours.tar.gz", 1_200_000_000
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, size
    with gzip.open(place, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(size // 10_000_000):
            file.write(bytes(10_000_000))
    done = measured(Coordinated(repo), "init", "--template", str(place), "--yes")
    assert done.returncode != 0 and "memory" in done.stderr and "512 MB" in done.stderr, done.stderr
    assert done.peak < MOST_MEMORY, f"{done.peak >> 20} MB"
    assert not (repo / ".corral").exists()


@pytest.mark.req("NFR-SEC-004")
def test_a_slow_answer_ends_with_the_time_for_all_of_it(
    server: Flood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FETCH_S", 2.0)
    monkeypatch.setattr(reading, "FETCH_S", 2.0)
    began, asked = time.monotonic(), TemplateStore(tmp_path / "repo.git", time.sleep)
    with pytest.raises(GitFailed, match="did not finish within 2 s") as refusal:
        asked.remote_refs(parse(server.url("drip"), tmp_path))
    assert "(1 try)" in refusal.value.message and "too slow" in refusal.value.cause
    monkeypatch.setattr(store, "FETCH_S", 60.0)
    with pytest.raises(GitFailed, match="did not finish within 2 s"):  # no time of its own for what is asked next
        asked.remote_refs(parse(server.url("drip"), tmp_path))
    with pytest.raises(GitFailed, match="did not finish within 2 s"):
        reading.read(parse(server.url("drip", "ours.tar.gz"), tmp_path))
    assert time.monotonic() - began < 60
    eventually(lambda: len(server.gone) >= 2)
