"""HTTP requests to addresses from settings and users, and a client of OCI registries.

No connections between Towline's own parts: those are in `core.rpc` and `core.links`.
"""
