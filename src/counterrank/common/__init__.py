"""What every layer uses: errors, checks of input, threads, atomic writes, and the ranking kernel."""
