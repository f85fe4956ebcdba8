"""What happened, as it happens: the stream, and the lines of the log."""
