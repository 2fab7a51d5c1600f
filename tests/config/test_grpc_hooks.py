"""The section of hooks over gRPC: what it takes, and what it refuses with its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from config.kit import load, refusal

from turnwired.domain.errors import ConfigError
from turnwired.domain.hook_kind import HookKind
from turnwired.rpc.hook_apps import hook_apps

HOOK = "[hooks.grpc.audit]\n"


@pytest.mark.requirement("GHOOK-12", "GHOOK-2")
async def test_a_hook_has_its_address_kinds_and_deadline(tmp_path: Path) -> None:
    text = HOOK + 'address = "127.0.0.1:9000"\nevents = ["text", "results"]\ndeadline_seconds = 3\n'
    (app,) = hook_apps(load(tmp_path, text).hooks, {}, "turnwire.toml")
    assert (app.name, app.address, app.deadline, app.tls, app.token) == ("audit", "127.0.0.1:9000", 3.0, False, None)
    assert app.kinds == frozenset({HookKind.TEXT, HookKind.RESULTS})


@pytest.mark.requirement("GHOOK-2")
@pytest.mark.parametrize(("line", "kinds"), [("", None), ("events = []", frozenset[HookKind]())])
async def test_without_a_list_of_kinds_there_are_all_and_with_an_empty_one_there_are_none(
    tmp_path: Path, line: str, kinds: frozenset[HookKind] | None
) -> None:
    (app,) = hook_apps(load(tmp_path, f'{HOOK}address = "[::1]:9000"\n{line}\n').hooks, {}, "turnwire.toml")
    assert app.kinds == kinds


@pytest.mark.requirement("GHOOK-11")
@pytest.mark.parametrize("word", ["tls", "insecure"])
async def test_another_machine_is_told_over_tls_or_if_the_configuration_says_that_it_need_not_be(
    tmp_path: Path, word: str
) -> None:
    text = f'{HOOK}address = "audit.example.com:443"\n{word} = true\n'
    (app,) = hook_apps(load(tmp_path, text).hooks, {}, "turnwire.toml")
    assert app.tls is (word == "tls")


@pytest.mark.requirement("GHOOK-11", "GHOOK-12")
@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("", "hooks.grpc.audit.address: is required"),
        ('address = "127.0.0.1"', 'hooks.grpc.audit.address: takes "host:port"'),
        ('address = "127.0.0.1:0"', "hooks.grpc.audit.address: needs a port"),
        ('address = "192.0.2.1:9000"', "hooks.grpc.audit: 192.0.2.1:9000 is on another machine; set tls = true"),
        ('address = "127.0.0.1:1"\ntls = true\ninsecure = true', "tls and insecure exclude each other"),
        ('address = "127.0.0.1:1"\nca_file = "a.pem"', "ca_file counts with tls = true only"),
        ('address = "127.0.0.1:1"\ntoken_env = "A"\ntoken_file = "b"', "the token comes from token_env already"),
        ('address = "127.0.0.1:1"\ntoken_env = "not a name"', "hooks.grpc.audit.token_env: takes the name of"),
        ('address = "127.0.0.1:1"\ntoken = "sesame"', "hooks.grpc.audit.token: a secret does not belong"),
        ('address = "127.0.0.1:1"\nevents = ["deltas"]', "hooks.grpc.audit.events.0: must be 'run'"),
        ('address = "127.0.0.1:1"\ndeadline_seconds = 0', "hooks.grpc.audit.deadline_seconds: must be greater"),
    ],
)
async def test_what_cannot_work_is_refused_with_its_key(tmp_path: Path, lines: str, says: str) -> None:
    said = refusal(tmp_path, f"{HOOK}{lines}\n")
    assert says in said
    assert "sesame" not in said
    assert "api_key" not in said


@pytest.mark.requirement("GHOOK-12", "GHOOK-10")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('token_env = "AUDIT_TOKEN"', "hooks.grpc.audit.token_env: the environment variable AUDIT_TOKEN is not set"),
        (
            'tls = true\nca_file = "/no/ca.pem"',
            "hooks.grpc.audit.ca_file: /no/ca.pem cannot be read: no such",
        ),
    ],
)
async def test_what_is_not_there_at_the_start_is_refused_with_its_key(tmp_path: Path, line: str, says: str) -> None:
    hooks = load(tmp_path, f'{HOOK}address = "127.0.0.1:1"\n{line}\n').hooks
    with pytest.raises(ConfigError, match=says):
        hook_apps(hooks, {}, "turnwire.toml")
