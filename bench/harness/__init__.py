"""Harness of `bench.tunnel`: backend, relay, agents and a narrow link.

Each program runs in its own process and prints `ready <port>`. Goals are defined elsewhere.
"""
