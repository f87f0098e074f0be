"""How a rank ends: errors, exit codes, stop signals and control files."""
