"""What several backends have in common: hosts.py for nodes reached over the network, kubernetes_*.py for pods."""
