"""The pdsh backend: see backend.py."""
