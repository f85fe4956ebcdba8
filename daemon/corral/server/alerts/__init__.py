"""Alerts are raised and people are told: the jobs, and the ways out of the daemon."""
