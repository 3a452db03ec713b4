"""Evaluation of gates, a pure function for each kind.

No side effects.
"""
