"""The promotion engine: one event in, the next state and its effects out.

Pure; replays give the same result.
"""
