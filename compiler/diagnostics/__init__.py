"""Diagnostics, the source positions that they point to, the snippets that show these positions, and a page for each
code.
"""
