"""Background upkeep: reload settings, end sessions and locks in time, delete old rows and files."""
