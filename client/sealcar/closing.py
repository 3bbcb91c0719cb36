"""What has to be closed is closed on leaving a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that gives itself, and closes itself."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
