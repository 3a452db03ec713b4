"""One HTTP/2 connection as gRPC uses it, from either end and without a socket (RFC 9113).

Nothing here knows of messages, calls or agents; what is rare goes by the book, DATA goes fast.
"""
