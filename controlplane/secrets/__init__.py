"""Secrets, their rotation and sources, and the keys that encrypt the store.

Only agents decrypt the values of secrets.
"""
