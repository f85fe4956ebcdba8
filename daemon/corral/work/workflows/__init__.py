"""Workflows: tasks that are made of steps. The steps are their followers; they wait for them, and do nothing themselves."""
