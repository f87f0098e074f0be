"""What the backends that start nodes over the network have in common: see hosts.py."""
