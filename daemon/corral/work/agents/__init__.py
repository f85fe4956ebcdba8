"""The record of agents: versions of their definitions, and what their work came to."""
