"""The control plane's end of the agents' Sync and Fetch calls.

Translates between the wire and the operations of `usecases.agents`; makes no decisions.
"""
