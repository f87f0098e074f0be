"""Rules on a spec and its plan, for every backend: check(spec, plan)."""
