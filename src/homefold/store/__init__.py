"""What is written to disk and read back: atomic files, locks, the stages of a training, model folders."""
