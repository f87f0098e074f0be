"""The launch plan (which processes run where) and its derivation from a spec, independent of backends."""
