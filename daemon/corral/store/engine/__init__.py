"""The database itself: connections, the writer, prepared statements, search, its identity."""
