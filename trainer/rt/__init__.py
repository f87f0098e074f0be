"""What runs beside the trainer on a node: supervisor, launcher of ranks, rank wrapper, checks, bash library.

Standard library only, and started with `python -I -S`, so that neither site-packages nor PYTHONPATH nor the
current folder can change what it does.
"""
