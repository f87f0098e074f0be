"""Rules on a spec and its plan, on every backend: check(spec, plan)."""
