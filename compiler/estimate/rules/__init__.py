"""Rules on the figures of one size of a job: check(figures, spec, plan), which yields Findings."""
