"""What the profiles that are not stored would take, and why they are not."""

from dpnotes.experiments.costs import Cost

COSTS = {
    "sensing": {
        "cpu": Cost(why="hours", hours=2, value=0.25, basis="from the quick profile: more repeats"),
        "paper": Cost(
            why="hours", hours=40, minutes=15, gigabytes=40, value=0.5, basis="from the quick profile: 500 dimensions"
        ),
    },
    "sharing": {
        "paper": Cost(why="hours", hours=6, value=0.5, basis="from the quick profile: height 1000, 64 clients")
    },
    "step_size": {
        "paper": Cost(
            why="hours",
            hours=2,
            minutes=3,
            gigabytes=4,
            value=0.5,
            basis="from the quick profile: 10,000 steps, 1,000 runs",
        )
    },
}
