"""Files that Corral writes for others: the supervisor's folder, and the evidence of each task."""
