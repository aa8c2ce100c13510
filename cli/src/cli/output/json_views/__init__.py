"""The JSON documents of the commands: what a script sees; a file for each thing."""
