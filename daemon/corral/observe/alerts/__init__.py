"""Alerts: which rules fire, how long an alert stays open, and when a person is notified."""
