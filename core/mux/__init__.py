"""Frames and streams of the tunnel: pure code on bytes and a clock.

No sockets, tasks, HTTP or logging here: `core.links` transports the messages, and the two
ends (`proxy.tunnel`, `syncagent.tunnel`) own the streams.
"""
