"""Runners start, follow and stop the processes that do tasks. See ``protocol.py`` for what they agree on."""
