"""gRPC calls between hub and agent: the port, and who fills it in: our own HTTP/2, and grpcio.

What messages mean, who may call and when to dial again are told elsewhere.
"""
