"""One engine for everything that trains: directory, checkpoints, history, several processes, resume."""
