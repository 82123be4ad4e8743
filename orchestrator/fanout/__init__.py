"""Fan-out by hand: one prompt for every item of a list, each a task of its own; their answers meet in one report."""
