"""Mistakes in the configuration of a sign-in, and its place within the limits of a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from providers.calls import ask
from providers.cloud.kit import profile

from turnwired.domain.errors import ConfigError
from turnwired.domain.failure import Reason
from turnwired.providers.build import provider_for
from turnwired.providers.credentials import Authorization, Outgoing, credentials_of
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import SignIn, shipped, with_overrides

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("CRED-17")
@pytest.mark.parametrize(
    ("sign_in", "options", "words"),
    [
        (SignIn.AZURE, {"scop": "x"}, "providers.cloudy.sign_in_options.scop: .*scope, identity, instance_discovery"),
        (SignIn.AZURE, {"identity": "mine"}, "sign_in_options.identity: takes one of managed, default"),
        (SignIn.AWS, {"regoin": "x"}, "sign_in_options.regoin: .*service, region, aws_profile"),
        (SignIn.GOOGLE, {"project": "x"}, "sign_in_options.project: .*takes scope"),
    ],
)
def test_an_option_that_a_sign_in_does_not_know_is_refused(
    sign_in: SignIn, options: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        credentials_of(profile(sign_in, sign_in_options=options), {})


@pytest.mark.requirement("CRED-17")
@pytest.mark.parametrize("row", [{"key_env": "KEY"}, {"key_file": "/run/key"}])
def test_a_key_beside_a_sign_in_is_refused_and_one_instead_of_it_is_taken(row: dict[str, Any]) -> None:
    (field_name,) = row
    with pytest.raises(ConfigError, match=rf'providers.mine.api_{field_name}: .*sign_in = "key"'):
        with_overrides(shipped(), {"mine": {"extends": "foundry", **row}})
    taken = with_overrides(shipped(), {"mine": {"extends": "foundry", "sign_in": "key", **row}})["mine"]
    assert taken.sign_in is SignIn.KEY


class Slow:
    """Never signs in."""

    hint = lack = "the test"

    def ready(self) -> bool:
        return True

    async def authorize(self, outgoing: Outgoing) -> Authorization:
        await asyncio.Event().wait()
        raise AssertionError(outgoing)

    async def renew(self) -> None:
        """Nothing."""

    async def aclose(self) -> None:
        """Nothing."""


@pytest.mark.requirement("CRED-8")
async def test_a_sign_in_counts_against_the_limit_of_the_call() -> None:
    calling = provider_for(shipped()["openai"], Slow(), environ={})
    asked = ModelRequest("m", [b'{"role":"user","content":"Hi"}'], limits=CallLimits(total=0.05))
    _, failure = await ask(calling, asked)
    await calling.aclose()
    assert failure is not None
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_TIMEOUT, True)
    assert "0.05 s (timeout.iteration)" in failure.message
