"""Rules on the finished task: check(task).

A value in the task comes from a job key, `backend.config` or `backend.extra`; FinishedTask.key_that_set() returns the
key.
"""
