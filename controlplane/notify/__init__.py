"""Sending to addresses that users have given: HTTP and syslog, never to where they must not reach.

No rule of the domain, no store: what is sent, and whether again, is decided elsewhere.
"""
