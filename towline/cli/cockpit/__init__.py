"""`towline ui`: the fleet in the terminal."""
