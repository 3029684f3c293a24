"""The datasets that are known by name, one file each; a new file here is found by itself."""
