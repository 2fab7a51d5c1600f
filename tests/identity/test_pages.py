"""The pages about callers and about the MCP endpoint print what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.pages import ROOT, printed_apart
from e2e.service import child_environment

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("IDENT-20", "MCPOUT-14")
@pytest.mark.parametrize("name", ["identity", "mcp_server"])
async def test_the_page_prints_what_it_says(name: str, tmp_path: Path) -> None:
    shown = await printed_apart(ROOT / "docs" / f"{name}.md", tmp_path, child_environment())
    assert any(says for says, _ in shown)
    for says, printed in shown:
        assert printed == says
