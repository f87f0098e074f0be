"""Rules for values that the API server or the nodes reject late or interpret differently: check(plan, options).

The API's schema does not cover most of these values: names, labels and quantities are plain text there, and a wrong
resource name or a missing claim leaves pods Pending forever (observed on v1.36.2). extra/ checks `backend.extra`, and
finished/ the pod after `backend.extra` is merged in.
"""
