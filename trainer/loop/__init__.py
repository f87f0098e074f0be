"""The training loop (loop.py), its hooks (hooks.py), and what these use."""
