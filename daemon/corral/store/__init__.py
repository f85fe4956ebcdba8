"""All SQL, one module per noun. Functions take an open connection first; callers choose the transaction."""
