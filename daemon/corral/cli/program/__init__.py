"""Commands about the program: daemon, settings, plugin, hook, bridge and version."""
