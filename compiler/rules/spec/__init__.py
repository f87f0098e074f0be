"""Rules about a spec, which apply to every backend: check(spec)."""
