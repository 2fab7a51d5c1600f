"""The example of the client's README runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from client.scripted import Script, ScriptedTurnService, finished, frame, started, text

README = Path(__file__).parents[2] / "clients" / "python" / "README.md"


@pytest.mark.requirement("CLIENT-1")
async def test_the_example_of_the_readme_returns_the_answer(service: ScriptedTurnService) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example[1], str(README), "exec"), names)
    service.scripts = [Script([frame(started(), text(2, "Noon"), finished(3, "Noon."))])]
    assert await names["ask"](service.address, "What time is it?") == "Noon."
