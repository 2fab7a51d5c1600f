"""File tools that change something: whole files at once, patches as a whole or not at all."""

from __future__ import annotations

import difflib
import itertools
import os
import stat
import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.operator.kit import files, names, tools_of

from turnwired.tools.operator import writing
from turnwired.tools.operator.patching import PatchError, applied, read_patch

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("OPER-10")
async def test_a_file_is_written_and_missing_directories_are_made(tmp_path: Path, way: str) -> None:
    tools = await tools_of(files(tmp_path))
    assert await tools.words("write_file", path="root/a/b/f", text="grün\n") == "created, 6 bytes"
    assert (tmp_path / "a" / "b" / "f").read_text() == "grün\n"
    assert await tools.words("write_file", path="root/a/b/f", text="") == "replaced, 0 bytes"
    assert names(tmp_path / "a" / "b") == ["f"]


@pytest.mark.requirement("OPER-10")
async def test_a_file_that_is_replaced_keeps_its_mode_and_its_other_names_keep_the_old_text(tmp_path: Path) -> None:
    script, other = tmp_path / "run.sh", tmp_path / "other"
    script.write_text("old")
    script.chmod(0o750)
    other.hardlink_to(script)
    tools = await tools_of(files(tmp_path))
    await tools.words("write_file", path="root/run.sh", text="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750 and script.read_text() == "new"
    assert other.read_text() == "old", "the file was written in place"


@pytest.mark.requirement("OPER-10")
async def test_a_reader_sees_the_old_or_the_new_file_and_never_a_part(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("0" * 100_000)
    tools = await tools_of(files(tmp_path))
    stop, seen = threading.Event(), set[tuple[int, str]]()

    def read() -> None:
        while not stop.is_set():
            text = file.read_text()
            seen.add((len(text), "".join(sorted(set(text)))))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        with anyio.fail_after(30):
            for number in range(30):
                await tools.words("write_file", path="root/f", text=str(number % 10) * 100_000)
    finally:
        stop.set()
        thread.join(10)
    assert {size for size, _ in seen} == {100_000} and all(len(digits) == 1 for _, digits in seen)


@pytest.mark.requirement("OPER-10")
async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_text("old")
    tools = await tools_of(files(tmp_path))

    def full(handle: int) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "fsync", full)
    failure = await tools.failure("write_file", path="root/f", text="new")
    assert (failure.origin_code, failure.message) == ("ENOSPC", "write_file: no space is left on the device")
    assert (tmp_path / "f").read_text() == "old" and names(tmp_path) == ["f"]


@pytest.mark.requirement("OPER-13")
async def test_a_root_that_is_for_reading_is_not_written(tmp_path: Path, way: str) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("old\n")
    roots = [{"path": tmp_path / "ours", "writable": True}, {"path": tmp_path / "theirs"}]
    tools = await tools_of({"files": {"roots": roots}})
    assert await tools.code("write_file", path="theirs/f", text="new") == "blocked_root"
    patch = "--- a/{0}/f\n+++ b/{0}/f\n@@ -1 +1 @@\n-old\n+new\n"
    both = patch.format("ours") + patch.format("theirs")
    assert await tools.code("apply_patch", patch=both) == "blocked_root"
    moved = "diff --git a/theirs/f b/ours/g\nsimilarity index 100%\nrename from theirs/f\nrename to ours/g\n"
    assert await tools.code("apply_patch", patch=moved) == "blocked_root"
    assert (tmp_path / "ours" / "f").read_text() == (tmp_path / "theirs" / "f").read_text() == "old\n"
    assert await tools.words("apply_patch", patch=patch.format("ours")) == "changed ours/f"


@pytest.mark.requirement("OPER-14")
async def test_what_is_too_large_is_neither_written_nor_patched(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n" * 600)
    (tmp_path / "g").write_text("x\n" * 511 + "y\n")
    tools = await tools_of(files(tmp_path, max_write_bytes=1024))
    assert await tools.code("write_file", path="root/new", text="x" * 1025) == "too_large"
    patch = "--- a/root/{0}\n+++ b/root/{0}\n@@ -{1} +{1} @@\n-{2}\n+{3}\n"
    assert await tools.code("apply_patch", patch=patch.format("f", 1, "x", "y")) == "patch_does_not_fit"
    assert await tools.code("apply_patch", patch=patch.format("g", 512, "y", "yy")) == "too_large"
    assert await tools.code("apply_patch", patch="+" * 262145) == "bad_patch"
    assert names(tmp_path) == ["f", "g"]


PATCH = """\
--- a/root/changed.txt
+++ b/root/changed.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
--- /dev/null
+++ b/root/new/created.txt
@@ -0,0 +1,2 @@
+first
+second
--- a/root/deleted.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/root/old.txt b/root/moved.txt
rename from root/old.txt
rename to root/moved.txt
--- a/root/old.txt
+++ b/root/moved.txt
@@ -1 +1,2 @@
 stays
+more
"""


def prepare(root: Path) -> None:
    (root / "changed.txt").write_text("one\ntwo\nthree\n")
    (root / "deleted.txt").write_text("gone\n")
    (root / "old.txt").write_text("stays\n")
    (root / "old.txt").chmod(0o600)


def texts(root: Path) -> dict[str, str]:
    """All files below a root, hidden or not."""
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@pytest.mark.requirement("OPER-11")
async def test_a_patch_changes_creates_deletes_and_moves(tmp_path: Path, way: str) -> None:
    prepare(tmp_path)
    told = await (await tools_of(files(tmp_path))).words("apply_patch", patch=PATCH)
    assert told.splitlines() == [
        "changed root/changed.txt",
        "created root/new/created.txt",
        "deleted root/deleted.txt",
        "moved root/old.txt to root/moved.txt",
    ]
    assert names(tmp_path) == ["changed.txt", "moved.txt", "new"] and names(tmp_path / "new") == ["created.txt"]
    assert (tmp_path / "changed.txt").read_text() == "one\nTWO\nthree\n"
    assert (tmp_path / "new" / "created.txt").read_text() == "first\nsecond\n"
    assert (tmp_path / "moved.txt").read_text() == "stays\nmore\n"
    assert stat.S_IMODE((tmp_path / "moved.txt").stat().st_mode) == 0o600


@pytest.mark.requirement("OPER-12")
@pytest.mark.parametrize("refused", ["link", "rename", "unlink"])
@pytest.mark.parametrize("after", range(4))
async def test_a_patch_that_fails_in_the_middle_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, after: int
) -> None:
    prepare(tmp_path)
    before = texts(tmp_path)
    tools = await tools_of(files(tmp_path))
    real = getattr(os, refused)
    calls = itertools.count()

    def failing(*arguments: object, **named: object) -> None:
        if next(calls) == after:
            raise OSError(5, "no")
        real(*arguments, **named)

    monkeypatch.setattr(os, refused, failing)
    result = await tools.result("apply_patch", patch=PATCH)
    now = texts(tmp_path)
    if result.failure is None:
        assert now["changed.txt"] == "one\nTWO\nthree\n" and "deleted.txt" not in now
    else:
        assert result.failure.origin_code == "EIO"
        assert now == before


@pytest.mark.requirement("OPER-12")
@pytest.mark.parametrize("broken", ["changed.txt", "deleted.txt", "old.txt"])
async def test_a_patch_of_which_one_file_does_not_fit_changes_nothing(tmp_path: Path, broken: str) -> None:
    prepare(tmp_path)
    (tmp_path / broken).write_text("something else\n")
    before = texts(tmp_path)
    failure = await (await tools_of(files(tmp_path))).failure("apply_patch", patch=PATCH)
    assert failure.origin_code == "patch_does_not_fit" and "nothing was changed" in failure.message
    assert "hunk 1 does not fit" in failure.message and "something" not in failure.message
    assert texts(tmp_path) == before


@pytest.mark.requirement("OPER-12")
async def test_a_file_that_somebody_changes_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    tools = await tools_of(files(tmp_path))
    commit = writing.Transaction.commit

    def interrupted(transaction: writing.Transaction) -> None:
        (tmp_path / "deleted.txt").write_text("somebody's own\n")
        commit(transaction)

    monkeypatch.setattr(writing.Transaction, "commit", interrupted)
    assert await tools.code("apply_patch", patch=PATCH) == "changed_meanwhile"
    assert (tmp_path / "deleted.txt").read_text() == "somebody's own\n"
    assert (tmp_path / "changed.txt").read_text() == "one\ntwo\nthree\n"
    assert names(tmp_path) == ["changed.txt", "deleted.txt", "new", "old.txt"] and names(tmp_path / "new") == []


@pytest.mark.requirement("OPER-12")
async def test_a_file_that_appears_where_one_is_created_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine\n")
    tools = await tools_of(files(tmp_path))
    created = "--- /dev/null\n+++ b/root/there\n@@ -0,0 +1 @@\n+theirs\n"
    assert await tools.code("apply_patch", patch=created) == "patch_does_not_fit"
    assert (tmp_path / "there").read_text() == "mine\n"


@pytest.mark.requirement("OPER-11")
@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("hello", "no file headers"),
        ("--- a/root/f\n+++ b/root/f\n", "file 1 has no hunks"),
        ("--- a/root/f\n+++ b/root/f\n@@ -1,3 +1,3 @@\n one\n", "Hunk is shorter than expected"),
        ("--- a/root/f\n+++ b/root/f\n@@ -1 +1 @@\n-a\n+b\n" * 2, "names a file twice"),
        ("--- a/root/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "not all of its lines are"),
        ("diff --git a/root/f b/root/g\ncopy from root/f\ncopy to root/g\n", "copies a file"),
        ("--- a/root/f\n+++ b/root/g\n@@ -1 +1 @@\n-one\n+1\n", "file 1 has two names"),
        ('--- "a/root/\\377"\n+++ "b/root/\\377"\n@@ -1 +1 @@\n-one\n+1\n', "is no UTF-8"),
        ("Binary files a/root/f and b/root/f differ\n", "binary files"),
        ("diff --git a/root/f b/" + "x" * 9000, "a header that is too long"),
        ("--- a/root/f\n+++ b/root/f\n@@ -9,0 +10 @@\n+x\n", "adds lines behind line 9"),
    ],
)
async def test_a_patch_that_cannot_be_meant_is_refused(tmp_path: Path, patch: str, words: str) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    failure = await (await tools_of(files(tmp_path))).failure("apply_patch", patch=patch)
    assert words in failure.message
    assert (tmp_path / "f").read_text() == "one\ntwo\n"


@pytest.mark.requirement("OPER-11")
async def test_names_that_git_quotes_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / 'caf\u00e9 "1"').write_text("a\n")
    quoted = 'root/caf\\303\\251 \\"1\\"'
    patch = f'--- "a/{quoted}"\n+++ "b/{quoted}"\n@@ -1 +1 @@\n-a\n+b\n'
    await (await tools_of(files(tmp_path))).words("apply_patch", patch=patch)
    assert (tmp_path / 'caf\u00e9 "1"').read_text() == "b\n"


def patched(text: str, hunks: str) -> str:
    return applied(text, read_patch(f"--- a/f\n+++ b/f\n{hunks}")[0], 1)


@pytest.mark.requirement("OPER-11")
def test_a_hunk_whose_lines_have_moved_goes_where_they_are_now() -> None:
    text = "new\nnew\n" + "".join(f"{number}\n" for number in range(10))
    both = "@@ -3,2 +3,2 @@\n 2\n-3\n+three\n@@ -8 +8 @@\n-7\n+seven\n"
    expected = text.replace("3\n", "three\n").replace("7\n", "seven\n")
    assert patched(text, both) == expected


@pytest.mark.requirement("OPER-11")
def test_a_hunk_that_fits_in_several_places_and_not_where_it_says_is_refused() -> None:
    with pytest.raises(PatchError, match="fits in several places"):
        patched("x\na\nx\na\n", "@@ -3,1 +3,1 @@\n-a\n+b\n")
    assert patched("x\na\nx\na\n", "@@ -4,1 +4,1 @@\n-a\n+b\n") == "x\na\nx\nb\n"
    with pytest.raises(PatchError, match="hunk 2 does not fit"):
        patched("a\nb\nc\n", "@@ -3 +3 @@\n-c\n+C\n@@ -4 +4 @@\n-a\n+A\n")


@pytest.mark.requirement("OPER-11")
def test_line_ends_stay_as_they_are_and_new_lines_get_those_of_the_file() -> None:
    hunk = "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+BB\n c\n"
    assert patched("a\r\nb\r\nc\r\n", hunk) == "a\r\nB\r\nBB\r\nc\r\n"
    assert patched("a\nb\nc", hunk) == "a\nB\nBB\nc"


@pytest.mark.requirement("OPER-11")
def test_the_end_of_the_last_line_is_changed_where_the_patch_says_so() -> None:
    mark = "\\ No newline at end of file\n"
    assert patched("a\nb", f"@@ -2 +2 @@\n-b\n{mark}+b\n") == "a\nb\n"
    assert patched("a\nb\n", f"@@ -2 +2 @@\n-b\n+b\n{mark}") == "a\nb"
    assert patched("a\nb", f"@@ -1,2 +1,2 @@\n-a\n+A\n b\n{mark}") == "A\nb"
    assert patched("a\nb", f"@@ -2 +2,2 @@\n-b\n{mark}+b\n+c\n{mark}") == "a\nb\nc"


LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "\n", " x\n", "-y\n", "+z\n", "--- q\n", "@@ -1 +1 @@\n"]), max_size=30
)


@pytest.mark.requirement("OPER-11")
@given(LINES, LINES, st.integers(0, 4))
def test_any_difference_between_two_texts_turns_one_into_the_other(old: list[str], new: list[str], around: int) -> None:
    diff = "".join(difflib.unified_diff(old, new, "a/f", "b/f", n=around))
    if diff:
        assert applied("".join(old), read_patch(diff)[0], 1) == "".join(new)


@pytest.mark.requirement("OPER-11")
@given(st.text(max_size=300))
def test_any_text_is_a_patch_or_is_refused_as_none(text: str) -> None:
    try:
        changes = read_patch(text)
    except PatchError:
        return
    assert changes
