"""Code shared by several backends: hosts.py for nodes and mounts, kubernetes_*.py for pods, and tables."""
