"""jobc's own config groups. Every default is defined here, with its meaning and unit, and nowhere else."""
