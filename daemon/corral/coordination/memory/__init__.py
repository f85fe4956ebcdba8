"""Memory: facts that sessions recorded for later ones."""
