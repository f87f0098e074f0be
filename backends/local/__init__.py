"""The local backend: see backend.py."""
