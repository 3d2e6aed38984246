"""The measurements of run.py, one file a section."""
