"""What the cluster decides by itself: what may be written here, whose bundles are believed, and
services of its own. Nothing that the control plane says can widen it.
"""
