"""The program: the command line, and the processes assembled from the other packages.

Product logic belongs in those packages, not here.
"""
