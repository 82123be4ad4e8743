"""Git on the host, and the only package that runs it: mirrors, checkouts, patches, merges, the user's branches.

Every command runs with a git directory and an index of our own. No configuration, hook, filter or attribute of the
repository at hand can start a program here.
"""
