"""Additions to the settings: profiles, aliases, and single values by command."""
