"""Retention: what is over and old goes."""
