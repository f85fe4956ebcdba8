"""Measurements of Corral on this machine, each next to a floor of the same run: ``python -m bench [name…] [--quick]``.

No time is asserted: a busy or slow machine fails no test. Compare ratios, not figures.
"""
