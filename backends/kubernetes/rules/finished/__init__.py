"""What a key of the job and `backend.extra` say together, and Kubernetes refuses: check(pod, options).

pod: the spec of the finished pod. What jobc writes alone is right.
"""
