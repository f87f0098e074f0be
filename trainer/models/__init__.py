"""The networks. One file per kind, and build.py."""
