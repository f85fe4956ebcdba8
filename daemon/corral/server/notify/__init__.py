"""Notifications: letters to sessions, waking of idle sessions."""
