"""What responses cost: dated prices and exact arithmetic.

``cost`` prices one usage, ``Prices`` many; ``load_prices`` gives the prices to use. All figures are
estimates of what the API would have charged: a subscription is billed otherwise.

Prices come from the genai-prices package, which knows when they changed, from a small table of our
own for what it lacks (``extras``), and from the user (``overrides``), who has the last word.
"""
