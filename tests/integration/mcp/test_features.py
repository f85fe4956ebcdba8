"""The registry of features through MCP, HTTP and the command line: one registry, one judgement."""

from __future__ import annotations

import pytest

from corral.core.errors import CorralError
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

CLAIMS = ["api:GET /v1/users", "db:schema:users", "src/api/users.py"]


def play_queue(house: Coordinated, scene: object) -> None:
    play(house, scene, profile="queue")  # type: ignore[arg-type]


@pytest.mark.req("FEATURE-1", "FEATURE-2", "FEATURE-3")
def test_a_feature_is_registered_judged_and_deregistered(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        answer = await agent.call("register_feature", feature_id="F-1", resource_claims=CLAIMS, title="Search")
        assert (answer["success"], answer["action"], answer["feature_id"]) == (True, "registered", "F-1")
        assert sorted(answer["resource_claims"]) == sorted(CLAIMS)
        (active,) = await agent.read("features://active")
        known = (await agent.call("get_feature", feature_id="F-1"))["feature"]
        for shown in (answer, active, known):
            assert (shown["feature_id"], shown["title"], shown["status"]) == ("F-1", "Search", "active")
            assert sorted(shown["resource_claims"]) == sorted(CLAIMS)
        (listed,) = (await agent.call("list_active_features"))["features"]
        assert listed["registered_by"] in {row["agent_name"] for row in house.json("session", "list")}

        candidate = ["src/**", "docs/a.md", "docs/b.md"]
        met = await agent.call("analyze_feature_conflicts", candidate_feature_id="F-2", candidate_claims=candidate)
        assert (met["feasibility"], met["total_candidate_claims"], met["total_conflicting_claims"]) == ("PARTIAL", 3, 1)
        (conflict,) = met["conflicts"]
        assert conflict == {
            "feature_id": "F-1",
            "feasibility": "PARTIAL",
            "claims": [["src/**", "src/api/users.py"]],
            "overlapping_keys": ["src/**"],
        }
        await agent.call("register_feature", feature_id="F-2", resource_claims=[*candidate, "db:schema:Users"])
        registered = await agent.call("analyze_feature_conflicts", feature_id="F-2")
        assert registered["feasibility"] == "SEQUENTIAL"
        assert ["db:schema:users", "db:schema:users"] in registered["conflicts"][0]["claims"]

        again = await agent.call("register_feature", feature_id="F-2", resource_claims=["web/**"], metadata={"n": 1})
        assert (again["action"], again["metadata"]) == ("updated", {"n": 1})
        assert (await agent.call("analyze_feature_conflicts", feature_id="F-2"))["feasibility"] == "FULL"

        for _ in range(2):
            ended = await agent.call("deregister_feature", feature_id="F-1")
            assert ended == {"success": True, "feature_id": "F-1", "status": "completed"}
        free = await agent.call("analyze_feature_conflicts", candidate_claims=CLAIMS)
        assert (free["feasibility"], free["conflicts"]) == ("FULL", [])
        assert [row["feature_id"] for row in (await agent.call("list_active_features"))["features"]] == ["F-2"]
        gone = (await agent.call("get_feature", feature_id="F-1"))["feature"]
        assert (gone["status"], sorted(gone["resource_claims"])) == ("completed", sorted(CLAIMS))

        revived = await agent.call("register_feature", feature_id="F-1", resource_claims=["x"])
        assert (revived["action"], revived["status"], revived["completed_at"]) == ("registered", "active", None)

    play_queue(house, scene)


def test_what_cannot_be_a_feature_is_refused_with_the_reason(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        async def error(tool: str, **arguments: object) -> str:
            answer = await agent.call(tool, **arguments)
            assert answer["success"] is False and answer["message"]
            return str(answer["error"])

        assert await error("register_feature", feature_id="F", resource_claims=[]) == "invalid_input"
        assert await error("register_feature", feature_id=" ", resource_claims=["a"]) == "invalid_input"
        assert await error("register_feature", feature_id="F\n", resource_claims=["a"]) == "invalid_input"
        assert await error("register_feature", feature_id="F", resource_claims=["../a"]) == "invalid_input"
        odd = await error("register_feature", feature_id="F", resource_claims=["invalid:prefix:key"])
        assert odd == "operation_not_permitted"
        many = [f"src/{n}.py" for n in range(10_000)]
        assert await error("register_feature", feature_id="F", resource_claims=many) == "invalid_input"
        large = {"text": "x" * 100_000}
        assert await error("register_feature", feature_id="F", resource_claims=["a"], metadata=large) == "invalid_input"
        assert await error("get_feature", feature_id="F") == "not_found"
        assert await error("deregister_feature", feature_id="F") == "not_found"
        assert await error("deregister_feature", feature_id="F", status="lost") == "invalid_input"
        assert await error("analyze_feature_conflicts") == "invalid_input"
        assert await error("analyze_feature_conflicts", feature_id="F") == "not_found"
        assert (await agent.call("list_active_features"))["features"] == []

    play_queue(house, scene)


@pytest.mark.req("FEATURE-1", "FEATURE-2", "FEATURE-3")
def test_people_and_programs_use_the_same_registry(house: Coordinated) -> None:
    claims = [part for claim in CLAIMS for part in ("--claim", claim)]
    made = house.json("feature", "register", "F/1", *claims, "--title", "Search", "--branch", "search")
    assert (made["action"], made["branch_name"], made["title"]) == ("registered", "search", "Search")
    assert sorted(house.ask("GET", "/features/F%2F1")["resource_claims"]) == sorted(CLAIMS)
    assert house.json("feature", "list") == house.ask("GET", "/features")
    assert house.json("feature", "show", "F/1") == house.ask("GET", "/features/F%2F1")
    assert "search" in house.run("feature", "show", "F/1").stdout
    assert "F/1" in house.run("feature", "list").stdout
    verdict = house.run("feature", "analyze", "--claim", "src/api", check=False)
    assert verdict.returncode == 4
    assert "SEQUENTIAL: 1 of 1" in verdict.stdout and "src/api meets src/api/users.py" in verdict.stdout
    below = house.run(
        "feature", "analyze", "--claim", "api", "--claim", "db:schema:x", cwd=house.root / "src", check=False
    )
    assert "1 of 2" in below.stdout and "src/api meets" in below.stdout, "a path is meant from where one stands"
    assert house.run("feature", "analyze", "F/1").stdout.startswith("FULL")
    assert house.json("feature", "deregister", "F/1", "--cancelled")["status"] == "cancelled"
    assert house.json("feature", "list") == []
    with pytest.raises(CorralError) as refused:
        house.ask("POST", "/features/analyze", {})
    assert refused.value.name == "invalid_input"
