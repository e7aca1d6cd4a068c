"""What an answer about the data costs: mechanisms, noise schedules, accounting."""
