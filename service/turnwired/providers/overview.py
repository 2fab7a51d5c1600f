"""What a person sees of a profile in a list. Opens no connection and shows no key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnwired.domain.errors import ConfigError
from turnwired.providers.build import start
from turnwired.providers.profiles import Profile, SignIn


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """One line: ``key`` is where the key belongs, ``problem`` what calls lack, empty when they can be made.

    ``configured``: there is a provider of this name in the configuration.
    """

    name: str
    wire: str
    base_url: str
    key: str
    problem: str
    configured: bool


def summary(profile: Profile, environ: Mapping[str, str], *, configured: bool) -> ProfileSummary:
    """The line of a profile under these environment variables."""
    try:
        problem = start(profile, environ).info.hint.removeprefix(f"Provider {profile.name} ")
    except ConfigError as error:
        problem = str(error)
    address = profile.address(environ) or profile.base_url or " or ".join(profile.address_variables)
    if profile.sign_in is not SignIn.KEY:
        key = f"sign-in: {profile.sign_in}"
    else:
        key = f"file {profile.key_file}" if profile.key_file else profile.key_env
        if key and not profile.key_required:
            key += " (optional)"
    return ProfileSummary(profile.name, profile.wire, address, key, problem, configured)
