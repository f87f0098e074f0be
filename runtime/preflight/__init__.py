"""The checks a node performs before starting its ranks."""
