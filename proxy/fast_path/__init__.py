"""Serves natively what the gateway has decided: reads whose head was authorized seconds ago, and
requests that run for long. `connection` serves, over a Unix socket, everything that the native hub
leaves to Python. `repeats` teaches the hub, and records, lists and ends what it serves. `splices`
hands single requests over. This package decides nothing itself.
"""
