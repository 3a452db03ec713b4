"""Decisions and failures that wait for one user, over all nouns.

Read-only: the operations of each noun decide.
"""
