"""Tasks and checks of an operator on the store of an installation, without its control plane.

Commands and their output are in `towline.cli.operator`, not here.
"""
