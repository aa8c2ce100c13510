"""The pure fold of the control topic, and what it means for a dagger."""
