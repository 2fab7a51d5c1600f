"""Key files that change in every way in which they change in practice, and the one renewal after a rejection."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from providers.calls import END, ask, provider, request, text
from providers.server import Answer, Request, serve

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.credentials import FileKey, KeyCredentials, Outgoing

pytestmark = pytest.mark.anyio

SENDING = Outgoing("POST", "http://127.0.0.1/v1", {}, b"{}")


@pytest.mark.requirement("CRED-5")
def test_a_secret_that_kubernetes_swaps_behind_symbolic_links_is_read_again(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name)
        os.utime(tmp_path / name / "key", (1, 1))  # the same time for both
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "key").symlink_to("..data/key")
    source = FileKey(str(tmp_path / "key"))
    assert source.key() == "first"
    (tmp_path / "..tmp").symlink_to("second")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert source.key() == "second"


@pytest.mark.requirement("CRED-5")
def test_a_file_of_the_same_size_and_time_that_replaces_another_by_a_rename_is_read_again(tmp_path: Path) -> None:
    path, new = tmp_path / "key", tmp_path / "new"
    source = FileKey(str(path))
    for word in ("key-1", "key-2", "key-3"):
        new.write_text(word)
        os.utime(new, (1, 1))
        new.replace(path)
        assert source.key() == word


@pytest.mark.requirement("CRED-5")
def test_a_file_that_is_written_over_and_set_back_in_time_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    source = FileKey(str(path))
    for word in ("key-1", "key-2"):
        path.write_text(word)
        os.utime(path, (1, 1))
        assert source.key() == word


@pytest.mark.requirement("CRED-5")
def test_a_file_that_goes_away_takes_its_key_with_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("key")
    source = FileKey(str(path))
    assert source.key() == "key"
    path.unlink()
    assert source.key() == ""
    path.write_text("back")
    assert source.key() == "back"


@pytest.mark.requirement("CRED-6", "CRED-8")
async def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for key in ("sk-one\nsk-two", "sk-\x00", "sk-ключ"):
        path.write_text(key)
        with pytest.raises(ProviderError) as caught:
            await KeyCredentials(FileKey(str(path))).authorize(SENDING)
        assert caught.value.failure.reason is Reason.PROVIDER_NOT_CONFIGURED
        assert "sk-" not in repr(caught.value.failure)
        assert str(path) in caught.value.failure.message


@pytest.mark.requirement("CRED-1", "CRED-5")
@pytest.mark.parametrize("renew", [False, True])
async def test_a_call_reads_the_key_again_whether_or_not_it_is_to_renew(tmp_path: Path, renew: bool) -> None:
    async def handler(asked: Request, answer: Answer) -> None:
        seen.append(asked.headers["authorization"])
        if seen[-1] == "Bearer stale":
            await answer.all(b'{"error":{"message":"Incorrect API key provided: stale"}}', 401)
        else:
            await answer.all(text("Hi.") + END)

    seen: list[str] = []
    path = tmp_path / "key"
    path.write_text("stale")
    async with serve(handler) as server:
        chat = provider(server.url, key_file=str(path))
        _, failure = await ask(chat, request())
        assert failure is not None
        assert failure.reason is Reason.PROVIDER_AUTH_FAILED
        path.write_text("fresh")
        folded, failure = await ask(chat, request(renew_credentials=renew))
        await chat.aclose()
    assert failure is None
    assert folded.text == "Hi."
    assert seen == ["Bearer stale", "Bearer fresh"]
