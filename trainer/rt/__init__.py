"""Runtime beside the trainer on a node: supervisor, rank launcher, rank wrapper, checks, bash library.

Standard library only. __main__.py starts its programs.
"""
