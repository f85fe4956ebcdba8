"""The daemon's process: its life, its wiring, its jobs."""
