"""Emit files from a plan: templates, YAML and JSON, line origins, the artifact directory and its manifest."""
