"""Saved views of lists, private or shared.

Not here: the rows of the lists, and the meaning of filters, which clients know.
"""
