"""The cluster end of the tunnel: streams become requests to this cluster's API server.

It dials nothing but that API server; the gRPC channel to the hub is `syncagent.link`'s.
"""
