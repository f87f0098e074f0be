"""jobctl's programs and verbs, such as the supervisor, the rank launcher, the rank wrapper, submit and status.

Standard library only. __main__.py starts them.
"""
