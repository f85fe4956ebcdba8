"""The daemon's process: its life, HTTP, background jobs. Threads and clocks live here and nowhere else."""
