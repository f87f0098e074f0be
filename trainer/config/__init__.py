"""train.json: its schema, how it is parsed and checked, and the objects that it names."""
