"""``python -m corral.runners.messages``: one attempt at one task; its assignment is its standard input."""

from __future__ import annotations

from corral.runners.messages.loop import main

if __name__ == "__main__":
    main()
