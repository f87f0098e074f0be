"""What Slurm or Pyxis would refuse, ignore or read as something else: check(plan, options)."""
