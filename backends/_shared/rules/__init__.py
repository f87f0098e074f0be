"""Rules of the backends that have a list of hosts (hosts.py), ssh, pdsh and accelerate: check(name, plan, here).

name: of the backend. here: without hosts a single node is this machine.
"""
