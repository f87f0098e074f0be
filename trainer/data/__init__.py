"""Where samples come from and in which order. One file per source, and order.py."""
