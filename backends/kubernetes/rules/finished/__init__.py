"""Rules for conflicts between job keys and `backend.extra`: check(pod, options).

pod: the finished pod's spec. Without `backend.extra`, it is always valid.
"""
