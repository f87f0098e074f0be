"""Rules on the finished task: check(task).

A value there comes from a job key, `backend.config` or `backend.extra`; FinishedTask.key returns the key for a place.
"""
