"""The internal API of replicas: server and client, with mutual TLS.

No decisions here: `coordination` knows the owners, and `sync` does the work.
"""
