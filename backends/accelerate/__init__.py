"""The accelerate backend: see backend.py."""
