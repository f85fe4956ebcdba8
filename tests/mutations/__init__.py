"""Mutation run: ``python -m tests.mutations [AREA | REQUIREMENT | part of a name …]`` puts one defect after the other into a copy.

A mutation that none of its named tests notices survives: then the tests do not prove what their marks say. The table is picked by
hand, at least one row for each group of requirements, so that a run takes minutes; ``tests/unit/test_mutations.py`` keeps it true.
"""
