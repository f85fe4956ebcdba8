"""``requirements-dev.lock``: what a person installs who wants exactly what passed."""

from __future__ import annotations

from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[2] / "requirements-dev.lock"
LINES = LOCK.read_text(encoding="utf-8").splitlines()


def test_every_package_that_the_tests_ask_for_is_pinned_to_a_version_they_allow() -> None:
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}
    asked = [Requirement(requirement) for requirement in requires("corral") or ()]
    asked = [
        requirement
        for requirement in asked
        if requirement.marker is None or requirement.marker.evaluate({"extra": "test"})
    ]
    assert asked
    missing = [requirement.name for requirement in asked if canonicalize_name(requirement.name) not in pins]
    assert not missing
    assert not [
        str(requirement)
        for requirement in asked
        if not requirement.specifier.contains(pins[canonicalize_name(requirement.name)])
    ]


def test_it_names_packages_and_versions_alone() -> None:
    """No line of one machine: a path, an address, the project itself."""
    assert not [line for line in LINES if line.count("==") != 1 or set(line) & set(" /@#;")]
    assert "corral" not in {line.split("==")[0] for line in LINES}
