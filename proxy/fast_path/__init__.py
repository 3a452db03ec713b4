"""Requests that native code serves by a decision of the gateway: reads whose head was authorized
seconds ago, and long-running requests. `connection` serves, over a Unix socket, everything that the
native hub leaves to Python. `repeats` teaches the hub, and records, lists and ends the requests
that it serves. `splices` hands single requests over. This package decides nothing itself.
"""
