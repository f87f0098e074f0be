"""The backend interface, and discovery of backends and site policies."""
