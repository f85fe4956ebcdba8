"""Shell commands, read from their text: what they start, what they would destroy, whether they can change a file."""
