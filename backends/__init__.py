"""Backends: one folder each, found by listing this folder. They are not registered anywhere."""
