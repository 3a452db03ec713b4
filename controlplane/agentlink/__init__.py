"""The hub's end of the agents' Sync and Fetch calls.

Translates between the wire and the verbs of `usecases.agents`; decides nothing of its own.
"""
