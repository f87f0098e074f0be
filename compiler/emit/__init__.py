"""From a plan to files: templates, YAML and JSON, line origins, the artifact directory and its manifest."""
