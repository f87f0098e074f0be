"""Rules about a spec and its plan, for every backend: check(spec, plan)."""
