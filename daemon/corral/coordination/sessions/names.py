"""Agent names: adjective and noun in one word (``GreenLake``), the same for the same seed."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable

from corral.core.errors import InvalidInput

_ADJECTIVES = """
    Amber Ancient Autumn Azure Bold Brass Brave Bright Brisk Bronze Calm Cedar Chestnut Clear Clever Cobalt Cool Copper Coral
    Cosmic Crimson Crisp Crystal Curious Dapper Daring Dawn Deep Dusty Eager Early Earnest Ebony Emerald Fair Fast Fearless
    Fern Fine Fleet Fond Forest Free Fresh Frosty Gentle Gilded Glad Golden Grand Granite Green Hardy Hazel Hearty Hidden
    Hollow Honest Humble Icy Indigo Iron Ivory Jade Jolly Keen Kind Lively Lofty Loyal Lucky Lunar Maple Marble Mellow Merry
    Mighty Mild Mint Misty Modest Mossy Navy Neat Nimble Noble Ocean Olive Opal Patient Pearl Plain Plucky Polar Proud Purple
    Quick Quiet Rapid Red Rosy Royal Ruby Rustic Sandy Scarlet Serene Sharp Shiny Silent Silver Sleek Smooth Snowy Solar
    Solid Steady Stony Sunny Swift Tidy Velvet Violet Warm White Wild Wise Zesty
"""
_NOUNS = """
    Acorn Anchor Arch Aspen Badger Basin Bay Beacon Bear Beaver Birch Bird Bison Bluff Bridge Brook Canyon Castle Cave Cliff
    Cloud Coast Comet Cove Crane Creek Crow Deer Delta Desert Dolphin Dove Dune Eagle Elk Falcon Field Finch Fjord Flame
    Forge Fox Garden Gate Geyser Glacier Glade Glen Grove Gull Harbor Hare Hawk Heath Heron Hill Horizon Island Jaguar Kite
    Lagoon Lake Lantern Lark Leaf Ledge Lily Lion Lynx Marsh Marten Meadow Mesa Mill Moon Moose Mountain Oak Oasis Orchard
    Osprey Otter Owl Panther Pass Path Peak Pebble Pine Plateau Pond Poplar Prairie Quail Quarry Rabbit Raven Reef Ridge
    River Robin Rock Sail Salmon Seal Shore Sky Sparrow Spring Spruce Squirrel Star Stone Storm Stream Summit Swan Thistle
    Tiger Trail Tree Valley Walnut Wave Whale Willow Wolf Wren
"""
ADJECTIVES, NOUNS = tuple(_ADJECTIVES.split()), tuple(_NOUNS.split())
TRIES = 64
"""How many pairs are tried before a number is appended."""

_CHOSEN = re.compile(r"(?![-.])[A-Za-z0-9._-]{1,64}")


def agent_name(taken: Callable[[str], bool], seed: str) -> str:
    """Find a free name.

    Args:
        taken: Whether a name is in use; asked until it says no.
        seed: Input of the choice, for example the session's identifier.
    """
    start = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    names = (_pair(start + step) for step in range(TRIES))
    numbered = (f"{_pair(start)}{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain(names, numbered) if not taken(name))


def _pair(index: int) -> str:
    # The noun changes with each try, the adjective with each round: names in sequence do not look alike.
    row, column = divmod(index % (len(ADJECTIVES) * len(NOUNS)), len(NOUNS))
    return ADJECTIVES[(row + column) % len(ADJECTIVES)] + NOUNS[column]


def check_agent_name(text: str) -> str:
    """Accept a name that an agent chose for itself, such as ``Sisyphus``, and return it.

    Raises:
        InvalidInput: Not 1 to 64 letters, digits, dots, dashes or underscores, or a dot or dash comes first.
    """
    if not _CHOSEN.fullmatch(text):
        raise InvalidInput(
            f"{text[:80]!r} cannot be the name of an agent.",
            cause="A name is shown, addressed in messages and given as an argument.",
            remedy="Use 1 to 64 letters, digits, dots, dashes or underscores, not beginning with a dot or a dash.",
        )
    return text
