"""Secrets at rest: envelope encryption and where the key comes from.

Plain text leaves this room only to the verb that asked for it.
"""
