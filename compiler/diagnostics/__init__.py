"""Diagnostics, the positions and source snippets that they point to, and one page for each code."""
