"""Network plans for people: text and pages."""
