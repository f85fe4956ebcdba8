"""Letters from Corral itself."""
