"""Rules for values that Slurm or Pyxis rejects, ignores or interprets differently: check(plan, options)."""
