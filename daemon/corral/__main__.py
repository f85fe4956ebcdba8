"""``python -m corral``."""

import sys

from corral.faces.cli import main

sys.exit(main())
