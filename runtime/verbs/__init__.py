"""An artifact's verbs: one module each, run as `jobctl VERB`. Only Python 3.8's standard library is used."""
