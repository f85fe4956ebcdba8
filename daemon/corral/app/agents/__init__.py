"""Agents as every face shows them: versions of their definitions, and their record."""
