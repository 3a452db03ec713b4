"""The cluster's end of the tunnel: turns streams into requests to this cluster's API server.
This package connects only to that API server and to allowed egress hosts; `syncagent.link` owns the
gRPC channel to the control plane.
"""
