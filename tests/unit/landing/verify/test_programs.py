"""The programs that shell commands name."""

from __future__ import annotations

import pytest

from corral.landing.verify.programs import named


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("pytest -q && npm test", ["pytest", "npm"]),
        ("A=1 B='x y' go test ./... 2>&1 | tee out.log", ["go", "tee"]),
        ("if [ -f x ]; then pnpm i; elif test -e y; then yarn; else npm ci; fi", ["pnpm", "yarn", "npm"]),
        ("cd sub && ./gradlew test; .venv/bin/pytest", []),
        ("bash -euc 'cargo test && make'", ["bash", "cargo", "make"]),
        ("for f in a b; do python3 -B $f || exit 1; done", ["python3"]),
        ("( cd a; mvn -q verify ) > log 2>&1", ["mvn"]),
        ("timeout 30s nice -n 5 env X=1 ruby x", ["timeout", "nice", "env", "ruby"]),
        ("x=$(nproc); make -j$x", ["nproc", "make"]),
        ("pytest\nruff check # and mypy\n", ["pytest", "ruff"]),
        ("node x.js # don't", ["node"]),
        ("$RUNNER x; /opt/tool/bin/check; ~/bin/more", ["/opt/tool/bin/check", "~/bin/more"]),
        ("! grep -q x y > out; exec python3 z", ["grep", "python3"]),
    ],
)
def test_they_are_the_first_words_of_simple_commands(command: str, names: list[str]) -> None:
    assert named([command]) == names
