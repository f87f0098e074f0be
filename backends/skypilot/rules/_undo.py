"""The hint to remove a value that a job key or `backend.extra` has set, shared by rules on the finished task."""

ALTERNATIVES = ("backend.any_of", "backend.ordered")


def removal_hint(key: str, instead: str) -> str:
    """Return a hint for the key that set a value.

    instead: the equivalent job key, or "" if there is none
    """
    if key in ALTERNATIVES:
        return f"remove that entry of {key}"
    return f"remove {key}" if key.startswith("backend.extra.") or not instead else instead
