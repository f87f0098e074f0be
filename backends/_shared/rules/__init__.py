"""Rules for backends that run on a list of hosts: check(name, plan, here). The arguments are those of
hosts.check_hosts_and_mounts().
"""
