"""The folder of a run, RUN_ROOT/JOB/RUN_ID: what is in it, who reads and writes which file."""
