"""File tools stay below their roots: paths, links, races, and what is no file. Each with openat2 and without."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
from collections.abc import Callable
from json import dumps
from pathlib import Path

import anyio
import pytest
from tools.kit import words_of
from tools.operator.kit import OK, Tools, files, names, tools_of

from turnwired.domain.policy import ArgumentValidation

pytestmark = pytest.mark.anyio

STRICT = ArgumentValidation.STRICT
ATTEMPTS = 300
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux
Places = tuple[Path, Path]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names are exchanged with a call of Linux")


async def over(place: Places) -> Tools:
    return await tools_of(files(place[0]))


def patch_of(path: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-SECRET\n+changed\n"


async def codes(tools: Tools, path: str) -> set[str]:
    """What every tool that takes a file says of this one."""
    return {
        await tools.code("read_file", path=path),
        await tools.code("tail_file", path=path),
        await tools.code("grep_files", path=path, pattern="SECRET"),
        await tools.code("write_file", path=path, text="changed"),
        await tools.code("apply_patch", patch=patch_of(path)),
    }


@pytest.mark.requirement("OPER-2")
@pytest.mark.parametrize(
    "path",
    [
        "root/../outside/secret",
        "root/a/../../outside/secret",
        "..",
        "../outside/secret",
        "/etc/passwd",
        "~/x",
        "root\\..\\outside\\secret",
        "root/a\0b",
        "root/" + "n" * 256,
        "root/" + "d/" * 65 + "f",
    ],
)
async def test_a_path_that_could_lead_elsewhere_is_refused_before_anybody_is_asked(place: Places, path: str) -> None:
    tools = await over(place)
    for name, more in (
        ("read_file", {}),
        ("list_dir", {}),
        ("grep_files", {"pattern": "x"}),
        ("write_file", {"text": ""}),
    ):
        checked = tools.view.check(name, dumps({"path": path, **more}), STRICT)
        assert checked.arguments is None and checked.asks_for is None
        assert checked.failure is not None and checked.failure.origin_code == "blocked_path"


@pytest.mark.requirement("OPER-2")
async def test_dots_and_double_slashes_mean_nothing_and_a_root_is_named_exactly(place: Places, way: str) -> None:
    tools = await over(place)
    (place[0] / "a.txt").write_text("here")
    assert await tools.words("read_file", path="./root//./a.txt") == "here"
    assert await tools.code("read_file", path="outside/secret") == "not_found"
    assert await tools.code("read_file", path="roo/a.txt") == "not_found"
    assert await tools.code("read_file", path="root") == "not_found"


@pytest.mark.requirement("OPER-3")
async def test_a_link_to_a_file_is_not_followed(place: Places, way: str) -> None:
    root, outside = place
    (root / "link").symlink_to(outside / "secret")
    (root / "inside").write_text("SECRET\n")
    (root / "near").symlink_to("inside")
    tools = await over(place)
    assert await codes(tools, "root/link") == {"ELOOP"}
    assert await codes(tools, "root/near") == {"ELOOP"}
    assert (outside / "secret").read_text() == (root / "inside").read_text() == "SECRET\n"


@pytest.mark.requirement("OPER-3")
@pytest.mark.parametrize("leads_to", ["../outside", ".", "/proc/self/root", "/proc/self/cwd"])
async def test_a_link_to_a_directory_is_not_followed(place: Places, way: str, leads_to: str) -> None:
    root, outside = place
    (root / "real").mkdir()
    (root / "real" / "link").symlink_to(leads_to if leads_to.startswith("/") else Path("..") / leads_to)
    tools = await over(place)
    assert await codes(tools, "root/real/link/secret") == {"ELOOP"}
    assert await tools.code("write_file", path="root/real/link/new/file", text="x") == "ELOOP"
    assert await tools.code("list_dir", path="root/real/link") == "ELOOP"
    assert await tools.code("list_dir", path="root/real/link/x") == "ELOOP"
    assert names(outside) == ["secret"]


@pytest.mark.requirement("OPER-3")
async def test_a_dangling_link_is_neither_read_nor_written_through(place: Places, way: str) -> None:
    root, outside = place
    (root / "dangling").symlink_to(outside / "created")
    (root / "loop").symlink_to("loop")
    tools = await over(place)
    assert await codes(tools, "root/dangling") == {"ELOOP"}
    assert await codes(tools, "root/loop") == {"ELOOP"}
    assert await tools.code("write_file", path="root/dangling/f", text="x") == "ELOOP"
    created = "--- /dev/null\n+++ b/root/dangling\n@@ -0,0 +1 @@\n+x\n"
    assert await tools.code("apply_patch", patch=created) == "ELOOP"
    assert names(outside) == ["secret"]


@pytest.mark.requirement("OPER-3")
async def test_a_search_and_a_listing_tell_of_links_and_do_not_follow_them(place: Places, way: str) -> None:
    root, outside = place
    (root / "away").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "own").write_text("SECRET too\n")
    tools = await over(place)
    assert await tools.words("grep_files", pattern="SECRET") == "root/own:1:SECRET too"
    listed = await tools.words("list_dir", path="root", depth=5)
    assert '{"path":"root/away","type":"link"}' in listed and "secret" not in listed


@pytest.mark.requirement("OPER-3")
async def test_a_root_may_be_a_link_itself_since_the_configuration_names_it(place: Places, way: str) -> None:
    root, outside = place
    (root.parent / "current").symlink_to(outside)
    tools = await tools_of(files(root.parent / "current"))
    assert await tools.words("read_file", path="root/secret") == "SECRET\n"


def exchanging(here: Path, there: Path, leads_to: Path, stop: threading.Event) -> Callable[[], None]:
    """Exchanges a name and a link again and again: both names are always there, and one of them is the link."""
    exchange = ctypes.CDLL(None, use_errno=True).renameat2

    def run() -> None:
        while not stop.is_set():
            exchange(AT_FDCWD, os.fsencode(here), AT_FDCWD, os.fsencode(there), RENAME_EXCHANGE)
            if not (here.is_symlink() or there.is_symlink()):  # a write has taken the place of the link
                fresh = there.with_name("fresh")
                fresh.symlink_to(leads_to)
                fresh.replace(there)

    return run


async def raced(tools: Tools, here: Path, there: Path, leads_to: Path, path: str) -> list[str]:
    """What many reads and writes gave while two names changed places."""
    stop = threading.Event()
    thread = threading.Thread(target=exchanging(here, there, leads_to, stop))
    thread.start()
    seen: list[str] = []
    try:
        with anyio.fail_after(60):
            for attempt in range(ATTEMPTS):
                result = await tools.result("read_file", path=path)
                seen.append(words_of(result) if result.status is OK else result.failure.origin_code)  # type: ignore[union-attr]
                written = await tools.result("write_file", path=path, text=f"{attempt}\n")
                assert written.status is OK or written.failure is not None
    finally:
        stop.set()
        thread.join(10)
    return seen


@pytest.mark.requirement("OPER-4")
@linux
async def test_a_directory_that_changes_places_with_a_link_leads_nowhere(place: Places, way: str) -> None:
    root, outside = place
    (root / "d").mkdir()
    (root / "d" / "secret").write_text("mine\n")
    (root / "link").symlink_to(outside)
    seen = await raced(await over(place), root / "d", root / "link", outside, "root/d/secret")
    assert not any("SECRET" in each for each in seen), seen
    assert "ELOOP" in seen and any(each[:1].isdigit() for each in seen), "the race did not take place"
    assert names(outside) == ["secret"] and (outside / "secret").read_text() == "SECRET\n"


@pytest.mark.requirement("OPER-4")
@linux
async def test_a_file_that_changes_places_with_a_link_leads_nowhere(place: Places, way: str) -> None:
    root, outside = place
    (root / "f").write_text("mine\n")
    (root / "link").symlink_to(outside / "secret")
    seen = await raced(await over(place), root / "f", root / "link", outside / "secret", "root/f")
    assert not any("SECRET" in each for each in seen), seen
    assert (outside / "secret").read_text() == "SECRET\n"


@pytest.mark.requirement("OPER-5")
async def test_what_is_no_regular_file_is_refused_at_once(place: Places, way: str) -> None:
    root, _ = place
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    (root / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(root)  # the path of a socket is short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        tools = await over(place)
        with anyio.fail_after(20):
            assert await codes(tools, "root/pipe") == {"ENXIO"}
            assert await codes(tools, "root/socket") == {"ENXIO"}
            assert await codes(tools, "root/zero") == {"ELOOP"}
            assert await tools.code("read_file", path="root/folder") == "EISDIR"
            assert await tools.code("write_file", path="root/folder", text="x") == "EISDIR"
            assert await tools.code("read_file", path="root/pipe/x") == "ENOTDIR"
            assert await tools.words("grep_files", pattern=".") == "[no line matches]"


@pytest.mark.requirement("OPER-5")
async def test_a_file_that_becomes_a_pipe_before_it_is_opened_is_refused(
    place: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place[0] / "f"
    file.write_text("x")
    really = os.open

    def too_late(path: str, *arguments: int, **named: int) -> int:
        if path == "f":
            file.unlink()
            os.mkfifo(file)
        return really(path, *arguments, **named)

    tools = await over(place)
    monkeypatch.setattr(os, "open", too_late)
    with anyio.fail_after(20):
        assert await tools.code("read_file", path="root/f") == "ENXIO"


@pytest.mark.requirement("OPER-5")
async def test_a_device_of_this_machine_is_refused(way: str) -> None:
    tools = await tools_of(files(Path("/dev")))
    with anyio.fail_after(20):
        assert await tools.code("read_file", path="root/zero") == "ENXIO"
        assert await tools.code("tail_file", path="root/null") == "ENXIO"


@pytest.mark.requirement("OPER-18")
async def test_a_failure_names_no_path(place: Places, way: str) -> None:
    tools = await over(place)
    for name, more in (("read_file", {}), ("tail_file", {}), ("list_dir", {}), ("write_file", {"text": "quoted"})):
        for path in ("root/secretname", "root/secretname/below", "../secretname", "secretname"):
            result = await tools.result(name, path=path, **more)
            if result.failure is not None:
                assert "secretname" not in str(result.failure) and str(place[0].parent) not in str(result.failure)
                assert "quoted" not in str(result.failure)
