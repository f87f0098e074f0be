"""What runs beside the trainer on a node: supervisor, launcher of ranks, rank wrapper, checks, bash library.

Standard library only. __main__.py starts its programs.
"""
