"""`python -m jobc`: the command line."""

import sys

from .compiler.cli import main

sys.exit(main())
