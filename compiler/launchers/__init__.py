"""Launchers that several backends share and that require additional files."""
