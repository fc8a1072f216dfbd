"""How answers look on a terminal, where several commands share them."""
