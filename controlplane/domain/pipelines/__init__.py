"""The pipeline engine: specification, state, gates, and promotion of releases through stages.

Everything here is a pure function of its arguments: no IO, no clock, no randomness, no logging.
"""
