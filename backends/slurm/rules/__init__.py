"""Rules for what Slurm or Pyxis rejects, ignores or reads differently: check(plan, options)."""
