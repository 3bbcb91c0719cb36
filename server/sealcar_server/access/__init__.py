"""Who calls, what they may do, and for how long they are there. Moves no bytes."""
