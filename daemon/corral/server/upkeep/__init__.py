"""What goes on by itself beside the work: settings taken over, sessions and locks ended in time, old rows and files deleted."""
