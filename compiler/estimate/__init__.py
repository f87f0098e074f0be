"""Estimate a job's steps, memory, time, cost and failures for `jobc plan`. Artifacts do not depend on it."""
