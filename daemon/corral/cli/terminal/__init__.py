"""Shared by the commands: output, options, the current context, prompts."""
