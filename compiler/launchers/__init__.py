"""Launchers that several backends share and that need additional files."""
