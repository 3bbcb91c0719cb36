"""This release, as the installed distribution says."""

from importlib.metadata import version

__version__ = version("sealcar")
