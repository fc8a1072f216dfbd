"""Run `turnlog keep` regularly: hooks, timers, cron."""
