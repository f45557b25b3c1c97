"""Where matches end: tables, figures, numbers and files."""
