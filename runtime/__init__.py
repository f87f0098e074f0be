"""jobctl's programs and verbs: node start, supervisor, rank launcher, rank wrapper, checks, submit, status, and so on.

Standard library only. __main__.py starts them.
"""
