"""The Slurm backend: see backend.py."""
