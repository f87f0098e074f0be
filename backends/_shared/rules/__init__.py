"""Rules for backends that run on a list of hosts: check(name, plan, here). The arguments are those of
HostsBackend.check().
"""
