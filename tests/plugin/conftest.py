"""acme/ is another package: its tests run where it is installed, see test_plugin.py."""

collect_ignore = ["acme"]
