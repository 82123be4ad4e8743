"""Plans as graphs of steps: checked, dispatched as soon as they may start, merged, and planned again. No model here."""
