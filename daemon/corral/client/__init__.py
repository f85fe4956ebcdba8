"""The client side: the connection to the daemon, a session's bridge, and the gate for its hook events."""
