"""The verbs of an artifact: one module each, run as `jobctl VERB`. Standard library of Python 3.8."""
