"""Watch the ranks of a node until they end, and the other nodes."""
