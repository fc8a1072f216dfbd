"""The live views: `turnlog top` and `turnlog watch`."""
