"""Other queues on the same server, each with its best at-least-once settings.

Each module is a peer: `fill(url, count)` puts no-op jobs into its queue, `drain(url, count)` runs one worker in this
process until it has done them, results stored. `python -m benchmarks.peers NAME URL COUNT` is that worker's process.
"""

# With its fields a request of ours is then about 600 bytes, as the targets were set for.
PROMPT = "x" * 300
