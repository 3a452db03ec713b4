"""Background loops: when operations run; the use cases contain what they do.

Each loop reacts to events; a slow periodic sweep covers missed events.
"""
