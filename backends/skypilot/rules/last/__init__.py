"""Rules whose errors other rules report better: check(task), run only if there are no other errors."""
