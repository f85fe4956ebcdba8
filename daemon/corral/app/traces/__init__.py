"""The trace of a task: its life as spans, derived from its events and rows."""
