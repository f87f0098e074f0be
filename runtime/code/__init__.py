"""Copies of the user's code: snapshots, checkouts, what git knows of them."""
