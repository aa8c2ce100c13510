"""Leads: folds the control topic, asks `fleet` what each dagger and replay is owed, acts, appends."""
