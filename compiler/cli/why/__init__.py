"""jobc why: explain where a line, a key or a variable of an artifact comes from."""
