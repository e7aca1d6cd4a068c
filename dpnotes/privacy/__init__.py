"""The privacy cost of answers about the data: mechanisms, noise schedules, accounting, audits."""
