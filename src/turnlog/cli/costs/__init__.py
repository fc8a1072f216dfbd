"""Commands about usage, costs and prices."""
