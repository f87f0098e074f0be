"""Estimate a job's steps, memory, time, cost and failures for `jobc plan`. No artifact depends on the estimates."""
