"""The half of a reader that runs in executors: a range of offsets in, Arrow out."""
