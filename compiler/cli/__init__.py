"""The command line: takes argv and returns an exit code (0: success, 1: diagnostics, 2: a bug in jobc). The exit codes
of jobc diff are different; diff.py explains them.

The first word without `=` is a command; without a command, jobc compiles. Each command is one function in a file in
this folder. Only these files print; the modules that they call return values. Only commands that compose import Hydra.
"""

import sys
from collections.abc import Sequence

from .terminal import ignore_broken_pipes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Never raises; errors are printed to stderr as diagnostics.

    argv: None means this process's own arguments. Only then does skip_unchanged.py recognize a repeated compile.
    """
    with ignore_broken_pipes():
        if argv is None:
            from .skip_unchanged import reprint_if_unchanged

            try:
                if reprint_if_unchanged(sys.argv[1:]):
                    return 0
            except OSError as error:
                from .reporting import DIAGNOSTICS, report_diagnostics, system_error_diagnostic

                report_diagnostics([system_error_diagnostic(error)])
                return DIAGNOSTICS
        from .command_line import (
            run_command_line,  # imported here because this import takes longer than a repeated compile
        )

        return run_command_line(list(sys.argv[1:] if argv is None else argv), of_process=argv is None)
