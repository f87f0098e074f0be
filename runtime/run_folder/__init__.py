"""A run's folder, RUN_ROOT/JOB/RUN_ID: its contents, and who reads and writes which file."""
