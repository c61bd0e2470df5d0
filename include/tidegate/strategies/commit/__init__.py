"""What a group's positions mean for a batch under its commit policy, and what of it is committed while its job runs."""
