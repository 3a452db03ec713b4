"""What both ends of the door must know of HTTP/1.1 (RFC 9112): where a body or an answer ends.

Bytes in, verdicts out; no sockets, no routing, no rewriting belong here.
"""
