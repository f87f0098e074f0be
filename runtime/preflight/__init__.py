"""Checks that a node runs before its ranks start."""
