"""Pipelines: the promotion engine, gates, triggers and releases.

The engine is pure; operations carry out its effects.
"""
