"""The edge: HTTP/1.1 of users on one side, streams of the tunnel on the other.

Who may do what is asked through ports; how a link to an agent comes about is `proxy.tunnel`'s.
"""
