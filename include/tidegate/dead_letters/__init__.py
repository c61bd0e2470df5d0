"""Dead letters: look at them, and produce them again, each once."""
