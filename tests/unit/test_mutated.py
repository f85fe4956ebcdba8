"""Which tests a changed module is held against."""

from __future__ import annotations

import pytest

from tests.mutated import tests_of as unit_tests_of


@pytest.mark.parametrize("module", ["daemon/corral/core/visible.py", "daemon/corral/coordination/locks/keys.py"])
def test_a_module_is_held_against_the_unit_tests_that_import_it(module: str) -> None:
    files = unit_tests_of([module])
    assert files, module
    assert all(file.startswith("tests/unit/") for file in files)
    assert "tests/unit/test_covered.py" not in files


def test_a_module_that_no_unit_test_imports_has_none() -> None:
    assert unit_tests_of(["daemon/corral/no/such_module.py"]) == []
