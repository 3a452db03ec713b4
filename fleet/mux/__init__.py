"""The tunnel's frames and stream states: pure code on bytes and a clock.

No sockets, no tasks, no logging here: the two ends (`proxy.tunnel`, `syncagent.link`) own those.
"""
