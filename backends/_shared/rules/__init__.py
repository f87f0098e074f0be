"""Rules for backends that run on a list of hosts (hosts.py): ssh, pdsh and accelerate.

Each rule is a function check(name, plan, here).

name: the backend's name
here: whether a job with one node and no hosts runs on this machine
"""
