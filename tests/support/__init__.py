"""What tests have in common: worlds to act in, programs to act with, and watchers."""
