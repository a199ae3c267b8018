"""Models of other programs as symbols."""
