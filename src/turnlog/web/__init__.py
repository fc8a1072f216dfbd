"""What a person sees in a browser: pages served on loopback, read only, one module each."""
