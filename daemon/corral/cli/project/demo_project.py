"""The project of ``corral demo``: a small Python project with a test suite, and a batch of tasks."""

# ruff: noqa: E501 - files, commands and prompts are quoted whole

from __future__ import annotations

from dataclasses import dataclass, field

FILES = {
    "README.md": "# Bakery\n\nPrices and orders of a small bakery.\n\n## Features\n\n- prices\n- orders\n\n## Notes\n\nNone yet.\n",
    "bakery/__init__.py": '"""A small bakery."""\n',
    "bakery/prices.py": '''"""Prices, in cents."""

PRICES = {
    "bread": 250,
    "roll": 60,
}


def price_of(item: str) -> int:
    """The price of one piece."""
    return PRICES[item]


def formatted(cents: int) -> str:
    """An amount as people write it."""
    return f"{cents // 100}.{cents % 100:02d} EUR"
''',
    "bakery/orders.py": '''"""Orders."""

from bakery.prices import price_of


def total(order: dict[str, int]) -> int:
    """The sum of an order, in cents."""
    return sum(price_of(item) * pieces for item, pieces in order.items())
''',
    "tests/__init__.py": "",
    "tests/test_prices.py": """import unittest

from bakery.prices import formatted, price_of


class Prices(unittest.TestCase):
    def test_bread_has_a_price(self):
        self.assertEqual(price_of("bread"), 250)

    def test_amounts_are_readable(self):
        self.assertEqual(formatted(250), "2.50 EUR")
""",
    "tests/test_orders.py": """import unittest

from bakery.orders import total


class Orders(unittest.TestCase):
    def test_an_order_is_summed(self):
        self.assertEqual(total({"bread": 2, "roll": 1}), 560)
""",
    ".gitignore": "__pycache__/\n",
}


@dataclass(frozen=True)
class DemoTask:
    """One task: a shell command for plain workers, a prompt for Claude Code workers, and what it demonstrates."""

    name: str
    title: str
    command: str
    prompt: str
    shows: str
    wait_for: tuple[str, ...] = field(default=())


def _write(path: str, text: str) -> str:
    return f"mkdir -p $(dirname {path}) && cat > {path} <<'CORRAL_END'\n{text}CORRAL_END\n"


def _replace(path: str, old: str, new: str) -> str:
    script = f"import pathlib; p = pathlib.Path({path!r}); t = p.read_text(); assert {old!r} in t; p.write_text(t.replace({old!r}, {new!r}, 1))"
    return f"\"$DEMO_PYTHON\" - <<'CORRAL_END'\n{script}\nCORRAL_END\n"


_TEST_HEAD = "import unittest\n\n"

TASKS = (
    DemoTask(
        "discounts",
        "Add discounts",
        _write(
            "bakery/discounts.py",
            '"""Discounts."""\n\n\ndef discounted(cents: int, percent: int) -> int:\n    """An amount less a percentage, rounded down."""\n    return cents * (100 - percent) // 100\n',
        ),
        "Create bakery/discounts.py with discounted(cents, percent) that takes a percentage off, rounded down. Change nothing else.",
        "first of a chain",
    ),
    DemoTask(
        "discount-tests",
        "Test discounts",
        _write(
            "tests/test_discounts.py",
            _TEST_HEAD
            + "from bakery.discounts import discounted\n\n\nclass Discounts(unittest.TestCase):\n    def test_ten_percent(self):\n        self.assertEqual(discounted(250, 10), 225)\n",
        ),
        "Create tests/test_discounts.py (unittest) that checks bakery.discounts.discounted. Change nothing else.",
        "second of the chain: starts when the first has landed",
        ("discounts",),
    ),
    DemoTask(
        "discount-orders",
        "Discount whole orders",
        _write(
            "bakery/loyalty.py",
            '"""Loyal customers pay less."""\n\nfrom bakery.discounts import discounted\nfrom bakery.orders import total\n\n\ndef loyal_total(order: dict[str, int]) -> int:\n    """The sum of an order of a loyal customer."""\n    return discounted(total(order), 5)\n',
        ),
        "Create bakery/loyalty.py with loyal_total(order): bakery.orders.total less 5 percent, using bakery.discounts. Change nothing else.",
        "third of the chain",
        ("discount-tests",),
    ),
    DemoTask(
        "readme-feature",
        "List a feature in the README",
        _replace("README.md", "- orders\n", "- orders\n- discounts\n"),
        "In README.md add the line '- discounts' directly below '- orders'. Change nothing else.",
        "one file, two tasks, merged cleanly",
    ),
    DemoTask(
        "readme-notes",
        "Write the notes of the README",
        _replace("README.md", "None yet.", "All amounts are in cents."),
        "In README.md replace the line 'None yet.' with 'All amounts are in cents.'. Change nothing else.",
        "one file, two tasks, merged cleanly",
    ),
    DemoTask(
        "bread-300",
        "Raise the price of rolls to 70",
        _replace("bakery/prices.py", '"roll": 60', '"roll": 70') + _replace("tests/test_orders.py", "560", "570"),
        "Set the price of a roll to 70 cents in bakery/prices.py and make tests/test_orders.py expect 570. Change nothing else.",
        "two tasks change one line: one of them comes back",
    ),
    DemoTask(
        "bread-320",
        "Raise the price of rolls to 80",
        _replace("bakery/prices.py", '"roll": 60', '"roll": 80') + _replace("tests/test_orders.py", "560", "580"),
        "Set the price of a roll to 80 cents in bakery/prices.py and make tests/test_orders.py expect 580. Change nothing else.",
        "two tasks change one line: one of them comes back",
    ),
    DemoTask(
        "rename",
        "Rename formatted to as_euros",
        _replace("bakery/prices.py", "def formatted", "def as_euros")
        + _replace("tests/test_prices.py", "import formatted, price_of", "import as_euros, price_of")
        + _replace("tests/test_prices.py", "formatted(250)", "as_euros(250)"),
        "Rename the function formatted in bakery/prices.py to as_euros and adapt tests/test_prices.py. Change nothing else.",
        "merges cleanly, breaks the tests together with the next: one of them comes back",
    ),
    DemoTask(
        "receipt",
        "Print receipts",
        _write(
            "bakery/receipts.py",
            '"""Receipts."""\n\nfrom bakery.orders import total\nfrom bakery.prices import formatted\n\n\ndef receipt(order: dict[str, int]) -> str:\n    """The last line of a receipt."""\n    return "Total: " + formatted(total(order))\n',
        )
        + _write(
            "tests/test_receipts.py",
            _TEST_HEAD
            + 'from bakery.receipts import receipt\n\n\nclass Receipts(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(receipt({"bread": 1}), "Total: 2.50 EUR")\n',
        ),
        "Create bakery/receipts.py with receipt(order) returning 'Total: ' + bakery.prices.formatted(bakery.orders.total(order)), and "
        "tests/test_receipts.py (unittest) that checks receipt({'bread': 1}) == 'Total: 2.50 EUR'. Change nothing else.",
        "merges cleanly, breaks the tests together with the previous: one of them comes back",
    ),
    DemoTask(
        "broken",
        "A task whose command fails",
        "echo 'half of the work' > half.txt; echo 'the oven is broken' >&2; exit 3",
        "",
        "fails; its unfinished work is salvaged",
    ),
)
