"""Node start: a node's settings and folders, and how nodes join an attempt."""
