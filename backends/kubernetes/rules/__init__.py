"""Rules for what a Kubernetes API server or its nodes reject late or interpret differently: check(plan, options).

Most of it is not in the API's schema: names, labels and quantities are text there, and a wrong resource name or a
missing claim leaves pods Pending forever (observed on v1.36.2). extra/ is about `backend.extra`, and finished/ about
the pod that it makes of jobc's.
"""
