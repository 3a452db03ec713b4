"""Operations on configuration sources, and their reconciliation.

The plan and the apply of manifests belong to `controlplane.manifests`.
"""
