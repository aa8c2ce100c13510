"""Says what a command found: in words, as drawings, and as JSON documents. It calls nobody."""
