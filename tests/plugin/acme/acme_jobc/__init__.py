"""Acme for jobc: see backend.py."""
