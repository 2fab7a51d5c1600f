"""File tools that look: what they show, within which bounds, and what they do not see."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools.operator.kit import files, invocation, tools_of

from turnwired.domain.message import Blob
from turnwired.domain.tool import ToolSource
from turnwired.tools.operator.config import OperatorConfig
from turnwired.tools.operator.reading import head, tail, text_of
from turnwired.tools.operator.searching import Bounds, Found, entries
from turnwired.tools.operator.toolset import OperatorToolset

pytestmark = pytest.mark.anyio

FILE_TOOLS = ["apply_patch", "grep_files", "list_dir", "read_file", "tail_file", "write_file"]


@pytest.mark.requirement("OPER-1", "OPER-13")
async def test_a_section_turns_on_its_own_tools(tmp_path: Path) -> None:
    async def listed(config: dict[str, Any]) -> list[str]:
        tools = (await tools_of(config)).view.tools
        assert {tool.ref.source for tool in tools} <= {ToolSource.OPERATOR}
        return [tool.ref.routed_name for tool in tools]

    assert await listed({}) == []
    assert await listed({"fetch": {}}) == ["http_fetch"]
    assert await listed(files(tmp_path)) == FILE_TOOLS
    reading = [name for name in FILE_TOOLS if name not in {"apply_patch", "write_file"}]
    assert await listed(files(tmp_path, writable=False)) == reading


@pytest.mark.requirement("OPER-1")
async def test_what_a_tool_says_of_itself_tells_looking_from_changing(tmp_path: Path) -> None:
    tools = (await tools_of({**files(tmp_path), "fetch": {}})).view.tools
    changing = {tool.ref.routed_name for tool in tools if tool.annotations.destructive}
    assert changing == {"apply_patch", "write_file"}
    assert all(tool.annotations.read_only for tool in tools if tool.ref.routed_name not in changing)
    assert all(tool.output_schema_json is None and tool.description for tool in tools)


@pytest.mark.requirement("OPER-1")
async def test_a_root_that_is_not_there_is_told_and_the_others_work(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_text("here")
    roots = [{"path": tmp_path / "a"}, {"path": tmp_path / "gone"}]
    toolset = OperatorToolset(OperatorConfig.model_validate({"files": {"roots": roots}}))
    await toolset.start()
    assert ["'gone'" in failure.message for failure in toolset.left_out] == [True]
    tools = await tools_of({"files": {"roots": roots}})
    assert await tools.words("read_file", path="a/f") == "here"
    assert await tools.code("read_file", path="gone/f") == "ENOENT"


@pytest.mark.requirement("OPER-6")
async def test_lines_are_read_from_anywhere_and_the_end_of_the_part_is_told(tmp_path: Path, way: str) -> None:
    (tmp_path / "f").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    tools = await tools_of(files(tmp_path))
    assert (await tools.words("read_file", path="root/f")).startswith("line 1\nline 2\n")
    part = await tools.words("read_file", path="root/f", first_line=3, max_lines=2)
    assert part == "line 3\nline 4\n\n[lines 3 to 4; the file goes on with first_line = 5]"
    assert await tools.words("read_file", path="root/f", first_line=10, max_lines=5) == "line 10\n"
    assert await tools.words("read_file", path="root/f", first_line=11) == "[the file has fewer than 11 lines]"
    (tmp_path / "empty").touch()
    assert await tools.words("read_file", path="root/empty") == ""


@pytest.mark.requirement("OPER-6", "OPER-14")
async def test_a_long_line_is_cut_between_characters_and_the_cut_is_told(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("ü" * 5000)
    tools = await tools_of(files(tmp_path, max_read_bytes=1025))
    text, told = (await tools.words("read_file", path="root/f")).split("\n", 1)
    assert text == "ü" * 512 and told.startswith("[cut in line 1, after 1025 bytes")


@pytest.mark.requirement("OPER-6")
async def test_what_is_no_text_comes_as_typed_bytes_if_it_is_not_too_large(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG\0\1")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "large.bin").write_bytes(b"\0" * 5000)
    tools = await tools_of(files(tmp_path, max_read_bytes=1024))
    picture = await tools.result("read_file", path="root/p.png")
    assert [part.content for part in picture.content] == [Blob("image/png", b"\x89PNG\0\1")]
    latin = await tools.result("read_file", path="root/latin")
    assert [part.content for part in latin.content] == [Blob("application/octet-stream", b"caf\xe9\n")]
    assert await tools.code("read_file", path="root/large.bin") == "not_text"
    assert await tools.code("tail_file", path="root/large.bin") == "not_text"


@pytest.mark.requirement("OPER-7")
async def test_the_last_lines_are_read_from_the_end(tmp_path: Path, way: str) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(100_000)))
    (tmp_path / "open").write_text("a\nb\nc")
    tools = await tools_of(files(tmp_path))
    assert (
        await tools.words("tail_file", path="root/log", max_lines=2) == "[the last 2 lines]\nline 99998\nline 99999\n"
    )
    assert await tools.words("tail_file", path="root/open", max_lines=2) == "[the last 2 lines]\nb\nc"
    assert await tools.words("tail_file", path="root/open") == "a\nb\nc"


@pytest.mark.requirement("OPER-7", "OPER-14")
async def test_the_last_lines_are_whole_within_the_bytes_that_one_call_reads(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"{number:09}\n" for number in range(1000)))
    tools = await tools_of(files(tmp_path, max_read_bytes=1024))
    text = await tools.words("tail_file", path="root/log", max_lines=1000)
    assert text.splitlines()[0] == "[the last 102 lines]" and text.splitlines()[1] == "000000898"


@pytest.mark.requirement("OPER-6", "OPER-7")
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("limit", [3, 7, 64, 1000])
def test_every_part_of_a_file_is_a_run_of_its_lines(tmp_path: Path, limit: int, ended: bool) -> None:
    lines = [b"%d" % (10**size) + b"\n" for size in range(12)]
    data = b"".join(lines) if ended else b"".join(lines)[:-1]
    (tmp_path / "f").write_bytes(data)
    with (tmp_path / "f").open("rb") as file:
        for first in range(1, 14):
            for count in (1, 2, 5, 100):
                rest = data.split(b"\n", first - 1)[first - 1] if first <= len(lines) else b""
                part = head(file.fileno(), first, count, limit, lambda: False)
                assert rest.startswith(part.data) and len(part.data) <= limit
                wanted = b"\n".join(rest.split(b"\n", count)[:count]) + (b"\n" if rest.count(b"\n") >= count else b"")
                assert part.data == wanted[:limit] and part.more == (len(part.data) < len(rest))
        for count in (1, 2, 5, 100):
            part = tail(file.fileno(), count, limit)
            assert data.endswith(part.data) and len(part.data) <= limit and part.lines <= count
            assert part.more == (len(part.data) < len(data))


@pytest.mark.requirement("OPER-6")
def test_text_is_utf_8_and_a_cut_may_be_in_the_middle_of_a_character() -> None:
    assert text_of("grün".encode()[:3], cut=True) == "gr"
    assert text_of("grün".encode()[:3], cut=False) is None
    assert text_of(b"a\0b", cut=True) is None
    assert text_of(b"\xff", cut=True) is None


@pytest.mark.requirement("OPER-8")
async def test_a_listing_tells_names_kinds_and_sizes_in_order(tmp_path: Path, way: str) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "deep").write_text("x")
    (tmp_path / "a.txt").write_text("12345")
    tools = await tools_of(files(tmp_path))
    a, b = {"path": "root/a.txt", "type": "file", "size": 5}, {"path": "root/b", "type": "directory"}
    assert json.loads(await tools.words("list_dir", path="root")) == {"entries": [a, b], "complete": True}
    below = json.loads(await tools.words("list_dir", path="root/b", depth=2))
    assert [entry["path"] for entry in below["entries"]] == ["root/b/c", "root/b/c/deep"]
    above = json.loads(await tools.words("list_dir"))
    assert above["entries"] == [{"path": "root", "type": "directory", "writable": True}]
    assert await tools.code("list_dir", path="root/a.txt") == "ENOTDIR"


@pytest.mark.requirement("OPER-8")
async def test_a_listing_that_is_not_complete_says_so(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").touch()
    listed = json.loads(await (await tools_of(files(tmp_path, max_entries=5))).words("list_dir", path="root"))
    assert [len(listed["entries"]), listed["complete"], listed["cut"]] == [5, False, "5 entries are the most"]


@pytest.mark.requirement("OPER-8")
async def test_names_that_are_no_unicode_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    (tmp_path / "caf\udce9").write_text("x")
    tools = await tools_of(files(tmp_path))
    assert "caf\ufffd" in await tools.words("list_dir", path="root")
    assert await tools.words("grep_files", pattern="x") == "root/caf\ufffd:1:x"


@pytest.mark.requirement("OPER-9")
async def test_lines_are_found_by_pattern_and_by_the_names_of_their_files(tmp_path: Path, way: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import os\nx = 'Ü'\n")
    (tmp_path / "b.txt").write_text("import nothing\r\nIMPORT\n")
    (tmp_path / "c.bin").write_bytes(b"import\0")
    tools = await tools_of(files(tmp_path))
    found = await tools.words("grep_files", pattern=r"^import \w+$")
    assert found == "root/b.txt:1:import nothing\nroot/src/a.py:1:import os"
    assert await tools.words("grep_files", pattern="ü", ignore_case=True) == "root/src/a.py:2:x = 'Ü'"
    assert await tools.words("grep_files", pattern="import", glob="*.py") == "root/src/a.py:1:import os"
    assert await tools.words("grep_files", pattern="import", glob="root/src/*") == "root/src/a.py:1:import os"
    assert await tools.words("grep_files", pattern="IMPORT", path="root/b.txt") == "root/b.txt:2:IMPORT"
    assert await tools.words("grep_files", pattern="nowhere") == "[no line matches]"
    assert await tools.code("grep_files", pattern="x", path="root/none") == "ENOENT"


@pytest.mark.requirement("OPER-9")
@pytest.mark.parametrize("pattern", ["(", "a{5000}{5000}", r"(a)\1", "(?=a)", "[z-a]"])
async def test_a_pattern_that_is_none_is_refused(tmp_path: Path, pattern: str) -> None:
    tools = await tools_of(files(tmp_path))
    failure = await tools.failure("grep_files", pattern=pattern)
    assert failure.origin_code == "bad_pattern" and pattern not in failure.message


@pytest.mark.requirement("OPER-9")
async def test_a_pattern_that_others_take_for_ever_with_takes_no_time(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 40_000 + "!\n")
    tools = await tools_of(files(tmp_path))
    with anyio.fail_after(20):
        assert await tools.words("grep_files", pattern="^(a+)+$") == "[no line matches]"


@pytest.mark.requirement("OPER-9", "OPER-14")
async def test_a_search_that_stops_at_a_bound_says_which(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}").write_text("hit\n" * 100)
    few = await (await tools_of(files(tmp_path, max_matches=3))).words("grep_files", pattern="hit")
    assert few.splitlines()[3:] == ["[not complete: 3 lines are the most; narrow the search]"]
    small = await (await tools_of(files(tmp_path, max_search_bytes=1024))).words("grep_files", pattern="miss")
    assert small.endswith("[not complete: a search reads no more bytes than this]")
    slow = await (await tools_of(files(tmp_path, max_search_seconds=1e-9))).words("grep_files", pattern="miss")
    assert slow.endswith("[not complete: the time for a search is over]")


@pytest.mark.requirement("OPER-9")
async def test_a_long_line_is_shown_in_part(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x" * 1000 + "\n")
    tools = await tools_of(files(tmp_path))
    assert await tools.words("grep_files", pattern="x") == f"root/f:1:{'x' * 400}…"


@pytest.mark.requirement("OPER-15")
async def test_what_a_root_excludes_is_as_if_it_was_not_there(tmp_path: Path, way: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("hit\n")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "a.pem").write_text("hit\n")
    (tmp_path / "keys" / "a.txt").write_text("hit\n")
    tools = await tools_of(files(tmp_path, exclude=[".git", "keys/*.pem"]))
    assert await tools.words("grep_files", pattern="hit") == "root/keys/a.txt:1:hit"
    listed = json.loads(await tools.words("list_dir", path="root", depth=5))
    assert [entry["path"] for entry in listed["entries"]] == ["root/keys", "root/keys/a.txt"]
    for path in ("root/.git", "root/.git/config", "root/keys/a.pem", "root/keys/new.pem"):
        assert await tools.code("read_file", path=path) == "ENOENT"
        assert await tools.code("write_file", path=path, text="x") == "ENOENT"
        assert await tools.code("list_dir", path=path) == "ENOENT"
        patch = f"diff --git a/root/keys/a.txt b/{path}\nrename from root/keys/a.txt\nrename to {path}\n"
        assert await tools.code("apply_patch", patch=patch) == "ENOENT"


@pytest.mark.requirement("OPER-19")
async def test_a_search_that_nobody_waits_for_ends_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()
    (tmp_path / "f").touch()

    def endless(handle: int, above: Sequence[str], depth: int, bounds: Bounds) -> Iterator[Found]:
        begun.set()
        for _ in range(100_000):
            if bounds.spent():
                break
            yield from entries(handle, above, depth, bounds)
        ended.set()

    monkeypatch.setattr("turnwired.tools.operator.files.entries", endless)
    tools = await tools_of(files(tmp_path, max_entries=100_000, max_search_seconds=600))
    with anyio.move_on_after(30) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(tools.view.execute, "list_dir", invocation({"path": "root"}, timeout=None), 1 << 20)
            await anyio.to_thread.run_sync(begun.wait, 10)
            group.cancel_scope.cancel()
    assert begun.is_set() and not scope.cancelled_caught
    assert await anyio.to_thread.run_sync(ended.wait, 10), "the thread goes on"


@pytest.mark.requirement("OPER-19")
def test_a_walk_looks_whether_anybody_waits(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}").touch()
    gone = threading.Event()
    bounds = Bounds(1 << 30, time.monotonic() + 60, gone.is_set)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        walk = entries(handle, ("root",), 1, bounds)
        next(walk)
        gone.set()
        rest = list(walk)
    finally:
        os.close(handle)
    assert len(rest) < 100 and bounds.cut == "nobody waits any more"
