"""Moves bytes between sealed files and clients' rings. Decides nothing about who may."""
