"""Rules for conflicts between job keys and `backend.extra`: check(pod, options).

pod: the spec of the finished pod. What jobc writes alone is right.
"""
