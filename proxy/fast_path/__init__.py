"""Repeats decisions of the gateway natively: reads whose head was authorized seconds ago.
`connection` serves, over a Unix socket, everything that the native hub leaves to Python. `repeats`
teaches the hub, and records, lists and ends what it serves. This package decides nothing itself.
"""
