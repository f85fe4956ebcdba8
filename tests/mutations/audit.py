"""The audit, and the ages after which rows go."""

from __future__ import annotations

from tests.mutations.table import rows

TRAIL = "unit/app/audit/test_trail.py"
REMOVED = f"{TRAIL}::test_what_retention_removed_is_counted_and_the_rest_verifies"

MUTATIONS = (
    *rows(
        "daemon/corral/observe/audit.py",
        ("a changed line of the audit passes", "        if digest(line) != line[\"hash\"]:", "        if False:", TRAIL, "FR-MONITOR-004"),
        ("a removed line of the audit passes", "        elif line[\"seq\"] > self.seq + 1:", "        elif False:", REMOVED, "NFR-COMP-003"),
    ),
    *rows(
        "daemon/corral/store/audit.py",
        ("what retention removed is not counted", ".values(end))", ".values(removed_at=at))", REMOVED, "NFR-COMP-003"),
    ),
)  # fmt: skip
