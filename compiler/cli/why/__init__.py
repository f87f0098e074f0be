"""jobc why: where a line, a key or a variable of an artifact came from."""
