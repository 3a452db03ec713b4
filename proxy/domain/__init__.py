"""Values of the Kubernetes proxy: identities, request attributes, grants, audit records and limits.
No IO, no HTTP bytes and no tunnel frames belong here.
"""
