"""Alerts: the state that their rules judge, and the operations on them."""
