"""HTTP: who may speak, how a request finds its route, and how answers are made."""
