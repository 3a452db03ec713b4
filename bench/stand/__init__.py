"""The programs between which `bench.tunnel` measures: backend, relay, agents, a narrow line.

Each runs in a process of its own and says `ready <port>`; nothing here knows the goals.
"""
