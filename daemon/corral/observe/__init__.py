"""What happened, in a form that people and programs can read."""
