"""Compare two existing artifacts, normalize them for comparison, and compile one again."""
