"""Estimate steps, memory, time, cost and failures of a job for `jobc plan`. Artifacts do not depend on it."""
