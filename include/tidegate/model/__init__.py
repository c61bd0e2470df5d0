"""The values that everything else is about: pure, and without anything from outside."""
