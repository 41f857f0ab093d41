"""What every layer stands on: errors, checks at the door, threads, files, and the ranking kernel."""
