"""Runners start, follow and stop the processes that do tasks. The interface is in ``protocol.py``."""
