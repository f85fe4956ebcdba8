"""Sessions: who is here and alive, what each is told at its start, and what it leaves at its end."""
