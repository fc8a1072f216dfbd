"""Running `turnlog keep` regularly: hooks, timers, cron."""
