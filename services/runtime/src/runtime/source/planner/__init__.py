"""The half of a reader that runs in the driver: which offsets each batch reads."""
