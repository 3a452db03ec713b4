"""The control plane's end of the tunnel: turns agents' calls into links.
This package does not decide which requests a link carries, or for whom.
"""
