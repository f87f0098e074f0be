"""One folder per backend. Backends are discovered by listing this folder, so nothing is registered."""
