"""Rules on the finished task: check(task).

What stands there was said by a key of the job, by `backend.config` or by `backend.extra`; a place leads to the key that
said it (Finished.key).
"""
