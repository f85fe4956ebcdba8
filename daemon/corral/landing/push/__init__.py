"""Landing on a branch of a remote: what is built upon, the push, and what the repository here gets of it."""
