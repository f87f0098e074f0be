"""Copies of the user's code: snapshots, checkouts, and what git knows about them."""
