"""What jobs of the lab must and must not; policy.py says it."""
