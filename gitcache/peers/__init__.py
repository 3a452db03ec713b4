"""The internal listener of a replica and the client that speaks to it, both sides proven by TLS.

Nothing here decides: who owns what is `coordination`'s, what is done is `sync`'s.
"""
