"""The start of a node: its settings, its folders, and how nodes join an attempt."""
