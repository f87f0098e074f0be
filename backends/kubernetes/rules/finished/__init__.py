"""Rules for conflicts between job keys and `backend.extra`: check(pod, options).

pod: the spec of the finished pod. Without `backend.extra` it is always valid.
"""
