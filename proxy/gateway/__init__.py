"""The edge: HTTP/1.1 with users on one side, streams of the tunnel on the other.
Ports authorize requests; `proxy.tunnel` establishes the links to agents.
"""
