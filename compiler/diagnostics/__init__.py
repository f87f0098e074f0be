"""Diagnostics, the positions and source snippets that they point at, and one page for each code."""
