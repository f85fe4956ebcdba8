"""How a command speaks and where it acts: output, options, the place, the person at the keyboard."""
