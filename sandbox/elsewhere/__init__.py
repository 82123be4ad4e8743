"""Workspaces for engines that cannot mount folders of this host: on another machine, rootless, with shifted user ids.

What a sandbox needs goes into volumes of the engine, once; each task lays its own copy out in memory of the engine's
host; and what it changed comes back through the tool server. See docs/decisions/0017-workspaces-elsewhere.md.
"""
