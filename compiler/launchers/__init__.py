"""Launchers that several backends share and that need files of their own."""
