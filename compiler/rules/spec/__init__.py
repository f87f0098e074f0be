"""Rules on a spec, which hold for every backend: check(spec)."""
