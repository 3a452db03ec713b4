"""Keeping terminal sessions: reading their protocols beside the splice, and files of asciicast.

What goes over the wire is never changed here, and nothing decides who is recorded.
"""
