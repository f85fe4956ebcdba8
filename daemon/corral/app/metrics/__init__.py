"""Figures about the work: of finished tasks, landings and verifications, and of the daemon itself."""
