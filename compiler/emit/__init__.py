"""Emit files from a plan: templates, YAML, JSON, the origin of each line, the artifact directory and its job.json."""
