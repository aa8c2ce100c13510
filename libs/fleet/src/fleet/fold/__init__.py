"""Folds the control topic: what requests and facts make of daggers and the catalogue, and how it is read."""
