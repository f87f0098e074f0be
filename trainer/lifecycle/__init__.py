"""Shutdown of a rank: errors, exit codes, stop signals and control files."""
