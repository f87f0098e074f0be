"""Rules on the figures for one size of a job: check(figures, spec, plan), which yields SizeFindings."""
