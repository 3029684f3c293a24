"""The shapes of tables, and what stands in their cells."""
