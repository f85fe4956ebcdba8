"""Notifications: letters to sessions, conditions that need a person, waking of idle sessions."""
