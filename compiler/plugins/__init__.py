"""The interface of a backend, and discovery of backends and site policies."""
