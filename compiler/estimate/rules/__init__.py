"""Rules about the figures for one job size. A rule is check(figures, spec, plan), which yields SizeFindings."""
