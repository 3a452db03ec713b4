"""Connections to Git servers: routes, credentials, TLS and SSH, and the Git protocol.

No mirrors: nothing here knows which repositories are followed.
"""
