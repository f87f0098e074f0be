"""The packaged config groups. Every default stands here, with its meaning and unit, and nowhere else."""
