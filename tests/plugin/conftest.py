"""Exclude acme/, which is another package: its tests run after it is installed, see test_plugin.py."""

collect_ignore = ["acme"]
