"""The inputs and plans that the authors of DecoPa published, as our queries, beside what they printed."""
