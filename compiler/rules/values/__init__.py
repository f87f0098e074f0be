"""Rules about every value of a job and of its backend, as text: check(values)."""
