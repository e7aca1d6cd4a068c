"""What the longer profiles take, and why one that is not stored is outstanding."""

from dpnotes.experiments.costs import Cost

COSTS = {
    "sensing": {
        "cpu": Cost(why="hours", hours=0.15, value=0.25, basis="measured"),
        "paper": Cost(
            why="hours", hours=40, minutes=15, gigabytes=40, value=0.5, basis="from the quick profile: 500 dimensions"
        ),
    },
    "sharing": {"paper": Cost(why="hours", hours=0.25, value=0.5, basis="measured")},
    "step_size": {
        "paper": Cost(
            why="hours",
            hours=0.04,
            minutes=3,
            gigabytes=4,
            value=0.5,
            basis="hours measured; minutes from the quick profile",
        )
    },
}
