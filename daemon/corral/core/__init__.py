"""Errors, identifiers, instants, logs and redaction, used by all other packages."""
