"""Writing one session: building records, stamping them, appending, forking."""
