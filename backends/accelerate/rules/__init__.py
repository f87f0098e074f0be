"""Rules of backend accelerate: check(plan, options)."""
