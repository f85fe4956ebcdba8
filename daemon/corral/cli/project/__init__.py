"""Preparing a repository and taking it back, and what is in order in it: init, uninstall, trust, doctor, demo."""
