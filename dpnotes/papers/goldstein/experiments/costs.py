"""What the profiles that are not stored would take, and why they are not."""

from dpnotes.experiments.costs import Cost

COSTS = {
    "complexity": {
        "paper": Cost(why="hours", hours=30, value=0.5, basis="from the quick profile: 144 cells, 1,000 steps")
    },
    "orders": {
        "paper": Cost(why="hours", hours=6, value=0.5, basis="from the quick profile: 100 dimensions, 200 steps")
    },
    "mnist": {"paper": Cost(why="hours", hours=3, value=0.5, basis="from the quick profile: 3,000 digits, 600 steps")},
}
