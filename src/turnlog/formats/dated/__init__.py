"""The dated store: one log for each project and day, which several sessions share."""
