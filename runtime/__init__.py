"""Programs and verbs of jobctl: start of a node, supervisor, rank launcher, rank wrapper, checks, submit, status, ….

Standard library only. __main__.py starts them.
"""
