"""How a release walks through the stages of a pipeline: specification, state, gates, engine.

Everything here is a pure function of its arguments; no IO, no clock, no randomness, no logging.
"""
