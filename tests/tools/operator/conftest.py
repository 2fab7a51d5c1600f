"""Both ways of opening what is below a root, for the tests of everything that does."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwired.tools.operator import beneath


@pytest.fixture(params=["openat2", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tools open directories this way."""
    way = str(request.param)
    if way == "openat2" and not beneath.openat2_works():
        pytest.skip("this kernel, or what it is shut in, has no openat2")
    monkeypatch.setattr(beneath, "openat2_works", lambda: way == "openat2")
    return way


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    """A root, and a directory beside it with a file ``secret``."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("SECRET\n")
    return root, outside
