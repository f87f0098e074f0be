"""Compare two existing artifacts, normalize them for comparison, and compile an artifact again."""
