"""The client's half of the data socket: connections, rings, and who owns which bytes."""
