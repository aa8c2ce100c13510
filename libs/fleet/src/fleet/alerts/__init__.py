"""Folds the alerts topic: alerts, their incidents, and what each receiver has been told."""
