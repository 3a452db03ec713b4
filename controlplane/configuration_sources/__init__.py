"""Configuration sources: folders of manifests in Git that run the installation.

Here is when and as whom a folder is applied; `controlplane.manifests` plans and applies it.
"""
