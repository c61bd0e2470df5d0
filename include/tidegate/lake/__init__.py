"""The lake: staged deliveries, and publishing them."""
