"""What people and sessions are told without asking: letters, what needs a person, and the waking of sessions at rest."""
