"""What docs/security.md promises has its tests, each row of the matrix; ``tests.requirements`` sees that ``--test`` runs them."""

from __future__ import annotations

from tests.requirements import ROOT, promises


def test_every_row_is_there_once() -> None:
    assert [promise.row for promise in promises() if promise.row] == [f"X{number}" for number in range(1, 20)]


def test_every_promise_names_tests_that_exist() -> None:
    for promise in promises():
        assert promise.tests, promise
        for test in promise.tests:
            file, _, function = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert not function or f"def {function}(" in text, test
