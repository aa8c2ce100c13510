"""A folder for PYTHONPATH: Python imports the `sitecustomize` in it before anything else."""
