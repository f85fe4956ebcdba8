"""Templates from elsewhere: where one is, how it is fetched and kept, what is in it. Nothing is executed or checked out."""
