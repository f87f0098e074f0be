"""Launchers that need additional files and are shared by several backends."""
