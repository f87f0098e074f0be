"""`python -m jobc`: the command line. Modules of the current folder are not imported."""

import os
import sys


def main() -> int:
    """Remove the current folder, which `python -m` puts first, from the import path, and run the command line."""
    if not getattr(sys.flags, "safe_path", False) and sys.path[0] in (
        "",
        working_directory(),
    ):  # safe_path: Python 3.11
        del sys.path[0]
    from .compiler.cli import main

    return main()


def working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the folder was removed
        return ""


sys.exit(main())
