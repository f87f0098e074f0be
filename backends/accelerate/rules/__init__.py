"""What backend accelerate is not for: check(plan, options)."""
