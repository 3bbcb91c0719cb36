"""What the demonstration found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sealcar.demo.measuring import Speed


@dataclass(frozen=True)
class Prediction:
    """What Magika says of one file with the sealed, compiled model, and with the plain one."""

    file: str
    label: str
    model_label: str
    score: float
    plain_label: str
    plain_model_label: str
    plain_score: float

    @property
    def equal(self) -> bool:
        """Whether both say the same: Magika's answer, and the model's own."""
        plain = (self.plain_label, self.plain_model_label)
        return (self.label, self.model_label) == plain


@dataclass(frozen=True)
class Outcome:
    """Everything that the demonstration found."""

    predictions: tuple[Prediction, ...]
    plaintext_hits: int
    searched_bytes: int
    ort_version: str
    callback_api: str
    ep: str
    blob_bytes: int
    speed: Speed
    store: str

    @property
    def equal(self) -> bool:
        """Whether all answers are those of the plain model."""
        return all(each.equal for each in self.predictions)

    @property
    def difference(self) -> float:
        """Largest difference between two scores."""
        return max(abs(each.score - each.plain_score) for each in self.predictions)

    def as_json(self) -> dict[str, Any]:
        """Return one object of plain values."""
        return {
            "equal": self.equal,
            "compared": "labels of Magika and of its model",
            "largest_score_difference": self.difference,
            "predictions": [{**asdict(each), "equal": each.equal} for each in self.predictions],
            "plaintext_hits": self.plaintext_hits,
            "searched_bytes": self.searched_bytes,
            "ort_version": self.ort_version,
            "callback_api": self.callback_api,
            "ep": self.ep,
            "blob_bytes": self.blob_bytes,
            "read_gbps": round(self.speed.read, 3),
            "write_gbps": round(self.speed.write, 3),
            "speed_bytes": self.speed.size,
            "store": self.store,
        }
