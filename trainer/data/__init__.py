"""Data sources and sample order. One file per source, and order.py."""
