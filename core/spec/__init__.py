"""Values that the control plane, agents, the wire and the git cache share.

Pure values and their checks; nothing here reads a file, a clock or a socket.
"""
