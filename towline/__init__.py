"""The program: command line and the compositions that run the parts in one process or several.

No logic of the product belongs here: it lives in the four parts that this package puts together.
"""
