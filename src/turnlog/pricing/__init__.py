"""The cost of responses: dated prices and exact arithmetic.

``cost`` prices one usage, ``Prices`` many; ``load_prices`` returns the prices to use. All figures
estimate what the API would have charged; subscriptions are billed differently.

Prices come from the genai-prices package, which records when they changed, from a small table of
our own for what it lacks (``extras``), and from the user (``overrides``), whose prices win.
"""
