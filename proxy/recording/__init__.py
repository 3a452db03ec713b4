"""Recording of terminal sessions: protocol readers beside the forwarded bytes, and asciicast files.
This package never changes the forwarded bytes and does not decide which sessions are recorded.
"""
