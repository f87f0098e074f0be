"""Copies of the user's code: snapshots and checkouts, and the git commands that they need."""
