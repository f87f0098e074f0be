"""Start a node inside a container: Docker, Podman, Apptainer, Enroot."""
