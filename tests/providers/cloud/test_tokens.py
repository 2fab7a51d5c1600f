"""Tokens in general: how long they are kept, who fetches them, and what happens when that fails."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest
from providers.cloud.kit import SECRET, outgoing

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.cloud import token as tokens
from turnwired.providers.cloud.token import Token, TokenCredentials
from turnwired.providers.errors import provider_failure

pytestmark = pytest.mark.anyio


@dataclass
class Source:
    """Gives tokens that live an hour; ``hold`` makes a fetch wait, ``fails`` makes it fail."""

    now: float = 1000.0
    life: float = 3600.0
    fetched: int = 0
    fails: bool = False
    hold: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    hint: str = "the test"
    lack: str = ""

    def __post_init__(self) -> None:
        self.hold.set()

    def fetch(self) -> Token:
        self.fetched += 1
        self.began.set()
        assert self.hold.wait(10)
        if self.fails:
            raise provider_failure(Reason.PROVIDER_NETWORK, "down", retryable=True)
        return Token(f"token-{self.fetched}", self.now + self.life)

    def clock(self) -> float:
        return self.now


def credentials(source: Source) -> TokenCredentials:
    return TokenCredentials(source, "cloudy", source.clock)


async def sent(given: TokenCredentials) -> str:
    return (await given.authorize(outgoing())).headers["Authorization"]


@pytest.mark.requirement("CRED-7")
async def test_a_token_is_kept_until_shortly_before_it_expires() -> None:
    source = Source()
    given = credentials(source)
    assert await sent(given) == "Bearer token-1"
    source.now += 3600 - 301
    assert await sent(given) == "Bearer token-1"
    source.now += 1
    assert await sent(given) == "Bearer token-2"


@pytest.mark.requirement("CRED-7")
async def test_a_token_of_a_short_life_is_used_for_most_of_it() -> None:
    source = Source(life=60.0)
    given = credentials(source)
    await sent(given)
    source.now += 53
    assert await sent(given) == "Bearer token-1"
    source.now += 1
    assert await sent(given) == "Bearer token-2"


@pytest.mark.requirement("CRED-7")
async def test_many_calls_that_need_a_token_fetch_one() -> None:
    source = Source()
    source.hold.clear()
    given = credentials(source)
    calls = [asyncio.create_task(sent(given)) for _ in range(50)]
    await asyncio.to_thread(source.began.wait, 10)
    source.hold.set()
    async with asyncio.timeout(10):
        assert set(await asyncio.gather(*calls)) == {"Bearer token-1"}
    assert source.fetched == 1


@pytest.mark.requirement("CRED-7")
async def test_a_call_that_is_cancelled_while_it_fetches_leaves_the_others_to_fetch_themselves() -> None:
    source = Source()
    source.hold.clear()
    given = credentials(source)
    first = asyncio.create_task(sent(given))
    await asyncio.to_thread(source.began.wait, 10)
    second = asyncio.create_task(sent(given))
    first.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await first
        source.hold.set()
        assert await second == "Bearer token-2"


@pytest.mark.requirement("CRED-7")
async def test_a_renewal_fetches_a_token_however_long_the_old_one_is_valid() -> None:
    source = Source()
    given = credentials(source)
    await sent(given)
    await given.renew()
    assert await sent(given) == "Bearer token-2"


@pytest.mark.requirement("CRED-7")
async def test_runs_that_were_rejected_together_fetch_one_token() -> None:
    source = Source()
    given = credentials(source)
    await sent(given)
    for _ in range(20):
        await given.renew()
        assert await sent(given) == "Bearer token-2"
        source.now += 0.4
    source.now += 3
    await given.renew()
    assert await sent(given) == "Bearer token-3"


@pytest.mark.requirement("CRED-8")
async def test_a_sign_in_that_hangs_ends_with_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "SIGN_IN_SECONDS", 0.05)
    source = Source()
    source.hold.clear()
    with pytest.raises(ProviderError) as caught:
        await sent(credentials(source))
    source.hold.set()
    failure = caught.value.failure
    assert (failure.reason, failure.retryable, failure.origin) == (Reason.PROVIDER_TIMEOUT, True, "cloudy")
    assert "0.05 s" in failure.message


@pytest.mark.requirement("CRED-9")
async def test_a_failed_replacement_leaves_the_valid_token_in_use_and_is_not_repeated_at_once() -> None:
    source = Source()
    given = credentials(source)
    await sent(given)
    source.fails = True
    source.now += 3400
    assert await sent(given) == "Bearer token-1"
    source.now += 29
    assert await sent(given) == "Bearer token-1"
    assert source.fetched == 2
    source.fails = False
    source.now += 1
    assert await sent(given) == "Bearer token-3"


@pytest.mark.requirement("CRED-9")
async def test_a_failed_replacement_of_an_expired_token_fails_the_call() -> None:
    source = Source()
    given = credentials(source)
    await sent(given)
    source.fails = True
    source.now += 3600
    with pytest.raises(ProviderError, match="down"):
        await sent(given)


@pytest.mark.requirement("CRED-6")
async def test_no_token_is_shown_by_what_holds_it() -> None:
    given = TokenCredentials(Source(), "cloudy")
    held = [Token(SECRET, 0.0), given, await given.authorize(outgoing(Authorization=SECRET))]
    assert all(SECRET not in repr(item) and "token-1" not in repr(item) for item in held)
