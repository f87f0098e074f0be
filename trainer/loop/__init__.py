"""The training loop (loop.py), its hooks (hooks.py), and the modules that they use."""
