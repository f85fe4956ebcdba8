"""Edits: the verdict on each before it is made, and which session made a change that was only seen afterwards."""
