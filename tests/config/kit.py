"""What tests of the configuration share."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwired.config import Config, load_config
from turnwired.domain.errors import ConfigError


def load(directory: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    file = directory / "turnwire.toml"
    file.write_text(text)
    return load_config(file, environ or {})


def refusal(directory: Path, text: str, environ: dict[str, str] | None = None) -> str:
    """The one line of the error, with the directory taken off."""
    with pytest.raises(ConfigError) as error:
        load(directory, text, environ)
    line = str(error.value)
    assert "\n" not in line
    return line.replace(f"{directory}/", "")
