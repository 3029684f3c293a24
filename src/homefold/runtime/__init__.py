"""What every room needs of the machine: devices, seeds, processes, progress, tiles."""
