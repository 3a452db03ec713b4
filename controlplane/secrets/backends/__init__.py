"""Encryption of the store, and sources of secret values.

Plain values never reach a log.
"""
