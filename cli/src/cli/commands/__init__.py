"""The commands, a module for each group: arguments in, one call of what does the work, the answer out."""
