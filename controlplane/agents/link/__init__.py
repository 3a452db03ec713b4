"""The server side of the agents' gRPC calls.

Translates and limits; operations decide.
"""
