"""Interfaces, addresses and ports of the nodes."""
