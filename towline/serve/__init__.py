"""Assembles, starts and stops the processes of `towline serve`.

Connects the ports of the packages to each other; contains no product logic.
"""
