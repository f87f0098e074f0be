"""The ssh backend: see backend.py."""
