"""The hub end of the tunnel: agents' calls come in here and become links.

What is sent over a link, and who may send it, is not decided here.
"""
