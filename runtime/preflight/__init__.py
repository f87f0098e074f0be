"""Checks of a node before its ranks start."""
