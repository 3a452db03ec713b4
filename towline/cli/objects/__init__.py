"""Objects of clusters, read through the Kubernetes proxy as the signed-in user.

No resources of the control plane: the other packages have those.
"""
