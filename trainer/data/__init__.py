"""Data sources, one file each, and the sample order (order.py)."""
