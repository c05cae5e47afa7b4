"""What the database looks like: its indexes and how older data becomes current."""
