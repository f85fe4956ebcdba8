"""Retention: delete finished data that is old."""
