"""The roadmap: a file of tasks that people edit, worked off in order."""
