"""Data sources, one per file, and the sample order (order.py)."""
