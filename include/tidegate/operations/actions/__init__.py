"""Actions of a person on a subscription: what each would do, of which nothing is done."""
