"""The newest rows of a dagger, read back from where it writes them."""
