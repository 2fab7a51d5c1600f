"""Provider profiles and keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from turnwired.domain.errors import ConfigError, ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.build import provider_for
from turnwired.providers.credentials import EnvironmentKey, FileKey, NoKey, key_source
from turnwired.providers.profiles import ToolCalling, host_and_port, shipped, with_overrides


@pytest.mark.requirement("PROFILE-1")
def test_the_shipped_profiles_are_there() -> None:
    assert {"openai", "openai-compatible", "local"} <= set(shipped())
    assert shipped()["local"].tool_calling is ToolCalling.JSON_SCHEMA
    assert shipped()["openai"].output_tokens_field == "max_completion_tokens"


@pytest.mark.requirement("PROFILE-1")
def test_a_configuration_changes_a_profile_and_adds_others() -> None:
    rows: dict[str, dict[str, Any]] = {
        "openai": {"models": ["a", "b"]},
        "mine": {"extends": "openai-compatible", "base_url": "http://x:1/v1", "tool_choice": ["auto"]},
        "new": {"wire": "openai.chat", "base_url": "https://y.example"},
    }
    profiles = with_overrides(shipped(), rows)
    assert profiles["openai"].models == ("a", "b")
    assert profiles["mine"].tool_choice == {ToolChoiceMode.AUTO}
    assert profiles["mine"].output_tokens_field == "max_tokens"
    assert profiles["new"].telemetry_name == "new"
    assert shipped()["openai"].models != ("a", "b")


@pytest.mark.requirement("PROFILE-1")
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"basurl": "x"}, "providers.openai.basurl"),
        ({"models": "a"}, "providers.openai.models"),
        ({"models": [1]}, "providers.openai.models"),
        ({"inputs": "yes"}, "providers.openai.inputs"),
        ({"tool_calling": "magic"}, "native, json_schema"),
        ({"tool_choice": ["maybe"]}, "tool_choice"),
        ({"base_url": "not a url"}, "providers.openai.base_url"),
        ({"base_url": "ftp://x"}, "providers.openai.base_url"),
        ({"base_url": "http://x:port"}, "providers.openai.base_url"),
        ({"headers": {"a": "b\r\nc: d"}}, "providers.openai.headers"),
        ({"headers": {"a": 1}}, "providers.openai.headers"),
        ({"extends": "nobody"}, "nobody"),
    ],
)
def test_a_mistake_in_a_profile_names_its_field(row: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_overrides(shipped(), {"openai": row})


@pytest.mark.requirement("PROFILE-1")
def test_a_new_profile_says_its_wire() -> None:
    with pytest.raises(ConfigError, match="wire"):
        with_overrides(shipped(), {"new": {}})


@pytest.mark.requirement("PROFILE-1")
def test_the_environment_overrides_the_address() -> None:
    profile = shipped()["openai"]
    assert profile.address({}) == "https://api.openai.com/v1"
    assert profile.address({"OPENAI_BASE_URL": " http://localhost:9/v1/ "}) == "http://localhost:9/v1"
    assert host_and_port("https://x.example/v1") == ("x.example", 443)


@pytest.mark.requirement("PROFILE-2")
def test_a_key_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "key"
    source = FileKey(str(path))
    assert source.key() == ""
    path.write_text("first\n")
    assert source.key() == "first"
    replacement = tmp_path / "new"
    replacement.write_text("second")
    replacement.replace(path)
    assert source.key() == "second"
    assert str(path) in source.hint


@pytest.mark.requirement("PROFILE-2")
def test_a_key_file_that_cannot_be_read_says_so_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"\xff\xfesecret")
    with pytest.raises(ProviderError) as caught:
        FileKey(str(path)).key()
    assert caught.value.failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert "secret" not in caught.value.failure.message


@pytest.mark.requirement("PROFILE-2")
def test_the_profile_names_the_source_of_the_key() -> None:
    environ = {"OPENAI_API_KEY": " k "}
    profiles = with_overrides(shipped(), {"file": {"extends": "openai", "key_file": os.devnull}})
    assert key_source(profiles["openai"], environ).key() == "k"
    assert isinstance(key_source(profiles["file"], environ), FileKey)
    assert isinstance(key_source(profiles["local"], environ), NoKey)


@pytest.mark.requirement("PROFILE-2")
def test_no_key_is_shown_by_what_holds_it() -> None:
    environ = {"OPENAI_API_KEY": "sk-secret"}
    provider = provider_for(shipped()["openai"], environ=environ)
    shown = [
        provider,
        provider.info,
        EnvironmentKey("OPENAI_API_KEY", environ),
        key_source(shipped()["openai"], environ),
    ]
    assert all("sk-secret" not in repr(item) for item in shown)
    assert provider.info.configured
    assert (provider.info.server_address, provider.info.server_port) == ("api.openai.com", 443)
