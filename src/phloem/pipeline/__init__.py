"""One module a task: reads, computes, writes."""
