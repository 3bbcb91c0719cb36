"""The audit log: who was let do what, and which key was used, in lines that can't be changed."""
