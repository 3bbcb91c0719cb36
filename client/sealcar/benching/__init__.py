"""How long a model takes until it answers, plain and sealed, each time in a fresh process."""
