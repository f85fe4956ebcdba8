"""Commands that prepare, check and restore a repository: init, uninstall, trust, doctor, demo."""
