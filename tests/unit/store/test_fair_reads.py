"""Turns of the event loop: one for each, in order, and none lost to whoever went away."""

from __future__ import annotations

import asyncio

from corral.store.access import FairQueue


async def _played(gone: tuple[int, ...] = ()) -> list[str]:
    turns, told = FairQueue(), list[str]()

    async def one(number: int) -> None:
        await turns.take()
        told.append(f"{number}")
        asyncio.get_running_loop().call_soon(told.append, "sent")

    tasks = [asyncio.create_task(one(number)) for number in range(4)]
    await asyncio.sleep(0)
    for number in gone:
        tasks[number].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(turns.take(), 5)
    return told


def test_what_one_wrote_is_sent_before_the_next_has_its_turn() -> None:
    assert asyncio.run(_played())[:7] == ["0", "sent", "1", "sent", "2", "sent", "3"]


def test_whoever_went_away_keeps_nobody_waiting() -> None:
    assert [step for step in asyncio.run(_played(gone=(1, 3))) if step != "sent"] == ["0", "2"]
