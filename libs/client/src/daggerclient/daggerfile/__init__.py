"""Dagger files: YAML to a DaggerSpec and back. Pure: text in, a request or every finding out."""
