"""Rules on the finished task: check(task).

A value there comes from a job key, `backend.config` or `backend.extra`; Finished.key returns the key for a place.
"""
