"""The operations of the git cache: follow, fetch, resolve, render.

Uses only ports: no processes, sockets or files.
"""
