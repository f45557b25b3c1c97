"""Statistics from events in memory: pairs and combinations that can meet, drawn at random and counted."""
