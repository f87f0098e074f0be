"""The nodes' interfaces, addresses and ports."""
