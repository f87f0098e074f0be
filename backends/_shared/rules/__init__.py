"""Rules for backends that run on a list of hosts: check(name, plan, here), whose arguments hosts.check() describes."""
