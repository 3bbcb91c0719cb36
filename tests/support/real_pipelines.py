"""Pipelines of packages from elsewhere, each with a way to bring sessions of our own."""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np
import onnx
from nudenet import NudeDetector
from omegaconf import flag_override
from rapidocr import RapidOCR
from rapidocr.ch_ppocr_rec import TextRecognizer

from sealcar import modelpackage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sealcar.ort.runtime import Session

Image = Any
# where recognition models keep their dictionary if it isn't a file
_CHARACTERS: Final = "character"
DICTIONARY: Final = "keys.txt"
MODELS: Final = {
    "det": "PP-OCRv6_det_small.onnx",
    "cls": "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
    "rec": "PP-OCRv6_rec_small.onnx",
}
_QUIET: Final = {"Global.log_level": "critical"}
RATE: Final = 16_000
# formants of vowels, in Hz
_VOWELS: Final = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
}
_BANDWIDTHS: Final = (80, 90, 120)


def folder_of(package: str) -> Path:
    """Return where an installed package lies, which isn't imported for it."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def picture(name: str) -> Image:
    """Return a photograph or a scan that an installed package ships."""
    found = cv2.imread(str(folder_of("skimage") / "data" / name))
    assert found is not None
    return found


def two_pages() -> Image:
    """Return a scanned page, and below it the same upside down."""
    page = picture("page.png")
    return np.concatenate([page, cv2.rotate(page, cv2.ROTATE_180)])


def plain_ocr() -> Any:  # noqa: ANN401  (untyped)
    """Return rapidocr as it is, with the models and the dictionary that it ships."""
    return RapidOCR(params=_QUIET)


def ocr_of(sessions: Mapping[str, Session], characters: Sequence[str]) -> Any:  # noqa: ANN401  (untyped)
    """Return rapidocr with other sessions, by component, and another dictionary."""
    engine = RapidOCR(params=_QUIET)
    with flag_override(engine.cfg, "allow_objects", True):  # noqa: FBT003  (its signature)
        engine.cfg.Det.session = sessions["det"]
        engine.cfg.Cls.session = sessions["cls"]
        engine.cfg.Rec.session = sessions["rec"]
    engine.cfg.Rec.font_path = None
    engine.text_rec = _Recogniser(engine.cfg.Rec, characters)
    return engine


class _Recogniser(TextRecognizer):  # type: ignore[misc]  # untyped
    """Takes a dictionary that it is given, where rapidocr reads a file or the model's metadata."""

    def __init__(self, cfg: object, characters: Sequence[str]) -> None:
        self._characters = characters
        super().__init__(cfg)

    def get_character_dict(self, cfg: object) -> tuple[Sequence[str], None]:
        del cfg
        return self._characters, None


def ocr_package(root: Path, words: Path) -> Path:
    """Make a package of rapidocr's three models; the dictionary is a shared asset of it."""
    models = {name: (folder_of("rapidocr") / "models" / file) for name, file in MODELS.items()}
    recogniser = onnx.load(models["rec"])
    (characters,) = (e.value for e in recogniser.metadata_props if e.key == _CHARACTERS)
    del recogniser.metadata_props[:]
    words.mkdir()
    (words / DICTIONARY).write_text(characters, encoding="utf-8")
    with modelpackage.create(root) as editor:
        editor.set_metadata(name="rapidocr", version="3")
    with modelpackage.edit(root) as editor:
        dictionary = editor.add_shared_asset(words)
        for name, path in models.items():
            place = root / name / "onnx"
            place.mkdir(parents=True)
            data = recogniser.SerializeToString() if name == "rec" else path.read_bytes()
            (place / "model.onnx").write_bytes(data)
            body = {"variant_directory": f"{name}/onnx"}
            editor.set_component(name, {"variants": {"onnx": body}})
            editor.set_executor_info(name, "onnx", "ort", {"model_file": "model.onnx"})
        told = {"dictionary": f"{dictionary}/{DICTIONARY}"}
        editor.set_executor_info("rec", "onnx", "rapidocr", told)
    return root


def plain_detector() -> Any:  # noqa: ANN401  (untyped)
    return NudeDetector()


class SealedDetector(NudeDetector):  # type: ignore[misc]  # untyped
    """The detector of nudenet with a session that is given."""

    def __init__(self, session: Session) -> None:
        self.onnx_session = session
        self.input_width = self.input_height = 320
        self.input_name = session.get_inputs()[0].name


@cache
def voice_activity() -> ModuleType:
    """Return silero-vad's own front end that wants no torch; its package imports it all the same.

    Of the module that does, the one function that the front end takes is compiled alone.
    """
    folder = folder_of("silero_vad")
    spec = find_spec("silero_vad")
    assert spec is not None
    name = "get_speech_timestamps_from_probs"
    tree = ast.parse((folder / "utils_vad.py").read_text(encoding="utf-8"))
    wanted: list[ast.stmt] = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    package, rest = module_from_spec(spec), ModuleType("silero_vad.utils_vad")
    code = compile(ast.Module(wanted, []), str(folder / "utils_vad.py"), "exec")
    vars(rest)["List"] = list
    exec(code, vars(rest))  # noqa: S102  (of the installed package)
    sys.modules |= {package.__name__: package, rest.__name__: rest}
    return import_module("silero_vad.sequence_vad")


def vad_of(session: Session) -> Any:  # noqa: ANN401  (untyped)
    """Return silero-vad's model with a session that is given."""
    front = voice_activity()
    made = front.SileroVADSequence.__new__(front.SileroVADSequence)
    made.session, made.sampling_rate = session, RATE
    made.max_frames = front.DEFAULT_MAX_FRAMES
    return made


def speech() -> NDArray[np.float32]:
    """Return three words of a synthetic voice, with silence before, between and after them."""
    rng = np.random.default_rng(1)
    parts = [_silence(rng, 0.7)]
    for word, pitch in (("aieo", 120), ("ioea", 110), ("eai", 130)):
        parts += [_syllable(rng, vowel, pitch) for vowel in word]
        parts.append(_silence(rng, 0.8))
    return np.concatenate(parts).astype(np.float32)


def _silence(rng: np.random.Generator, seconds: float) -> NDArray[np.float64]:
    return 0.0005 * rng.standard_normal(int(seconds * RATE))


def _syllable(rng: np.random.Generator, vowel: str, pitch: int) -> NDArray[np.float64]:
    """Return pulses of a glottis through the resonances of a mouth, after a breath."""
    breath = 0.02 * rng.standard_normal(800) * np.hanning(800)
    time = np.arange(int(0.16 * RATE)) / RATE
    phase = np.cumsum(pitch * (1 + 0.1 * np.sin(19 * time) - time)) / RATE
    tone = np.diff(np.floor(phase), prepend=0) + 0.003 * rng.standard_normal(len(time))
    for formant, bandwidth in zip(_VOWELS[vowel], _BANDWIDTHS, strict=True):
        tone = _resonated(tone, formant, bandwidth)
    tone *= np.minimum(1, np.minimum(time / 0.04, (time[-1] - time) / 0.06))
    return np.concatenate([breath, tone / np.abs(tone).max() * 0.5])


def _resonated(tone: NDArray[np.float64], formant: float, bandwidth: float) -> NDArray[np.float64]:
    radius = np.exp(-np.pi * bandwidth / RATE)
    first, second = 2 * radius * np.cos(2 * np.pi * formant / RATE), -(radius**2)
    out = np.zeros(len(tone) + 2, np.float64)
    for index, value in enumerate(tone):
        out[index + 2] = value + first * out[index + 1] + second * out[index]
    made: NDArray[np.float64] = out[2:] * (1 - radius)
    return made
