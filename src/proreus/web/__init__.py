"""The dashboard: pages that the browser runs, and the answers behind them, for any server of ours to show."""
