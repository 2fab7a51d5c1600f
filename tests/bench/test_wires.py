"""The comparison of the wires with bare httpx2: every answer is whole, every row is there. Asserts no times."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.wire_streams import STREAMS, WIRES, WORD
from bench.wires import SIZES, measure
from turnwired.domain.generation import GenerationStopped, TextChunk
from turnwired.providers.build import wire_of
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, Wire


@pytest.mark.requirement("BENCH-7")
@pytest.mark.parametrize("wire", WIRES)
def test_a_scripted_answer_is_what_the_wires_parser_takes(wire: str) -> None:
    parser = wire_of(Profile("p", Wire(wire), "p")).call(ModelRequest("m", [b'{"role":"user"}'])).parser(200)
    items = parser.feed(b"".join(STREAMS[wire](7)))
    items += parser.finish()
    assert "".join(item.text for item in items if isinstance(item, TextChunk)) == WORD * 7
    assert sum(isinstance(item, GenerationStopped) for item in items) == 1
    assert (parser.error, parser.broken) == (None, None)


@pytest.mark.requirement("BENCH-7")
@pytest.mark.slow
async def test_every_wire_is_measured_beside_bare_httpx2(tmp_path: Path) -> None:
    rows = await measure(SIZES["tiny"], tmp_path)
    names = [str(row["name"]) for row in rows]
    for wire in WIRES:
        assert [name for name in names if name.startswith(f"{wire},")] == [
            f"{wire}, a chunk, written one by one",
            f"{wire}, a chunk, written at once",
            f"{wire}, a request of 1 MB",
        ]
    assert all(isinstance(row["value"], float) and row["value"] > 0 for row in rows)
