"""Rules about the figures for one size of a job. A rule is check(figures, spec, plan), which yields SizeFindings."""
