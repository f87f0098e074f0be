"""Brings the option --update-golden."""

pytest_plugins = ["jobc.compiler.testing.suite"]
