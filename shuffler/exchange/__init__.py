"""Messages between processes: encoding, channels, inboxes and outboxes, the shuffler node and its Ray shell.

Imports the rooms before it. Modules named `ray_*` are the only ones that import Ray.
"""
