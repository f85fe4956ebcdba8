"""Measurements of Corral on the machine at hand, each beside a floor of the same run: ``python -m bench [name…] [--quick]``.

Nothing here asserts a time: a machine that is busy, or slow, makes no test red. Compare ratios, not figures.
"""
