"""The client side: a connection to the daemon, the bridge of a session, and the gate in front of its edits."""
