"""Rules for backends with a list of hosts (hosts.py), ssh, pdsh and accelerate: check(name, plan, here).

name: name of the backend; here: whether a single node without hosts is this machine.
"""
