"""Code shared by several backends: hosts.py for nodes reached over the network, kubernetes_*.py for pods."""
