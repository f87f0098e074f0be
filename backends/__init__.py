"""Backends: one folder each, found by looking. Nothing here or elsewhere lists them."""
