"""The Kubernetes proxy: kubectl and other clients reach any cluster through it as their own user.
This package knows neither services nor pipelines nor the control plane's store; it uses its ports.
"""
