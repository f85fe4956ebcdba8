"""The words of the product as types: states, identifiers, instants. Pure; imported by everyone, imports only errors."""
