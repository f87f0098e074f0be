"""The launch plan (who runs what where) and its derivation from a spec, independent of backends."""
