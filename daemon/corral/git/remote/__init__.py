"""Templates from elsewhere: their addresses, fetching, cache and files. Nothing is executed or checked out."""
