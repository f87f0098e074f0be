"""Watch a node's ranks until they end, and watch the other nodes."""
