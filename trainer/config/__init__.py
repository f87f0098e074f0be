"""Everything about train.json: schema, parser, checks, and instantiation of the objects that it names."""
