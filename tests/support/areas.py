"""What memory a process has, as the kernel sees it."""

from __future__ import annotations

from pathlib import Path


class Area:
    """A mapping as the kernel describes it.

    Attributes:
        advised: huge pages were asked for.
        resident: bytes that are there.
    """

    def __init__(self, address: int) -> None:
        self.advised, self.resident = False, 0
        within = found = False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            name, *words = line.split()
            if "-" in name:
                begin, end = (int(part, 16) for part in name.split("-"))
                within = begin <= address < end
                found = found or within
            elif within and name == "Rss:":
                self.resident = int(words[0]) << 10
            elif within and name == "VmFlags:":
                self.advised = "hg" in words
        assert found, "nothing is mapped there"
