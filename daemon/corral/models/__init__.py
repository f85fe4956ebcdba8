"""Shared types: states, identifiers, instants. Pure; imported by every folder, imports only errors."""
