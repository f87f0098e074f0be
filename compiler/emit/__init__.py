"""Emit files from a plan: templates, YAML and JSON, origins of lines, the artifact directory and its job.json."""
