"""Trust: commands that a project's files would run, until the user approved them on this machine."""
