"""The program's own commands: its daemon, settings, plugin, hook, bridge and version."""
