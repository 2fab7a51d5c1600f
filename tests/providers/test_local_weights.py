"""The embedded model's weights: found, checked, and put in place whole or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from turnwired.providers.local.weights import Weights, models_directory, problem_with, put

CONTENT = b"weights" * 1000
WEIGHTS = Weights("model.gguf", "pkg/model.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def fetched(directory: Path, content: bytes = CONTENT) -> Path:
    path = directory / "fetched.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.requirement("LOCAL-1")
def test_weights_that_were_put_in_place_can_be_used(tmp_path: Path) -> None:
    path = put(fetched(tmp_path), WEIGHTS, tmp_path / "models")
    assert path.read_bytes() == CONTENT
    assert problem_with(WEIGHTS, tmp_path / "models") == ""
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["model.gguf", "model.gguf.sha256"]


@pytest.mark.requirement("LOCAL-1")
@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[:-1] + b"x"])
def test_other_content_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError, match="hash"):
        put(fetched(tmp_path, content), WEIGHTS, tmp_path / "models")
    assert "are not at" in problem_with(WEIGHTS, tmp_path / "models")


@pytest.mark.requirement("LOCAL-2")
def test_missing_weights_are_one_sentence_that_says_what_to_run(tmp_path: Path) -> None:
    problem = problem_with(WEIGHTS, tmp_path)
    assert "make model" in problem
    assert problem.endswith(".")
    assert "\n" not in problem


@pytest.mark.requirement("LOCAL-1")
def test_a_file_whose_fetch_was_cut_is_not_used(tmp_path: Path) -> None:
    put(fetched(tmp_path), WEIGHTS, tmp_path)
    (tmp_path / WEIGHTS.file).write_bytes(CONTENT[:100])
    assert "not those of this release" in problem_with(WEIGHTS, tmp_path)


@pytest.mark.requirement("LOCAL-1")
def test_weights_without_their_note_count_as_missing(tmp_path: Path) -> None:
    put(fetched(tmp_path), WEIGHTS, tmp_path)
    (tmp_path / f"{WEIGHTS.file}.sha256").unlink()
    assert "are not at" in problem_with(WEIGHTS, tmp_path)


@pytest.mark.requirement("LOCAL-1")
def test_weights_of_another_release_are_not_used(tmp_path: Path) -> None:
    put(fetched(tmp_path), WEIGHTS, tmp_path)
    newer = replace(WEIGHTS, sha256="0" * 64)
    assert "not those of this release" in problem_with(newer, tmp_path)


@pytest.mark.requirement("LOCAL-1")
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/h"}, "/cache/turnwire/models"),
        ({"HOME": "/h"}, "/h/.cache/turnwire/models"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/turnwire/models"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/turnwire/models"),
    ],
)
def test_the_cache_is_where_the_xdg_specification_has_it(environ: dict[str, str], expected: str) -> None:
    assert models_directory(environ) == Path(expected)
