"""Compare two existing artifacts, normalize files for comparison, and compile an artifact again."""
