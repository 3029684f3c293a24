"""Files to pixels: one image, many at once, and who does it."""
