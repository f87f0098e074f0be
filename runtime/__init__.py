"""jobctl's programs and verbs, such as the supervisor, the rank launcher, the rank wrapper, submit and status.

They use only the standard library. __main__.py runs them.
"""
