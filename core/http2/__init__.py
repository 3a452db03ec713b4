"""The part of HTTP/2 (RFC 9113) that gRPC uses, for client and server, without sockets.

Nothing here knows messages, calls or agents. DATA frames take a fast path; all other frames
follow the RFC step by step.
"""
