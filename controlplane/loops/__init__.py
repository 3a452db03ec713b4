"""Background work: when something is done. What is done, the use cases know.

Each loop wakes on events; a slow sweep is the net beneath them.
"""
