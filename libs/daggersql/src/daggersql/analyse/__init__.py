"""From tree to typed IR: names, types, windows, joins. All mistakes are said, each once."""
