"""What everything else is built of: errors, identifiers, instants, logs and redaction."""
