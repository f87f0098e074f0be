"""Rules that run only if there are no other errors, because other rules explain the same errors better: check(task)."""
