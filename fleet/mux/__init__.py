"""The tunnel's frames and stream states: pure code on bytes and a clock.

No sockets, tasks, HTTP or logging belong here: `fleet.links` carries the messages, and the two
ends (`proxy.tunnel`, `syncagent.tunnel`) own the streams.
"""
