"""jobc why: explain where a line or a key of an artifact comes from."""
