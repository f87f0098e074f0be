"""The interface of a backend, and how backends and site policies are found."""
