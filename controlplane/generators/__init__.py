"""Generators of services for many clusters: global services, service sets, managed namespaces.

Small transactions, and no removal in doubt.
"""
