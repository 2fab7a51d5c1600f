"""From tokens to callers, and what a configuration of them may say."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from config.kit import load, refusal

from turnwired.callers import FILE_SECONDS, Callers, TokenFile, callers_of, digest
from turnwired.config import Config
from turnwired.domain.errors import ConfigError, Unauthenticated
from turnwired.domain.run import Caller

TOKEN = "shop-token-0123456789"
ADMIN = "admin-token-0123456789"
SHOP = Caller("acme", "shop", frozenset(("support",)))
TWO = """
[[callers]]
principal = "shop"
tenant = "acme"
roles = ["support"]
token_env = "SHOP_TOKEN"

[[callers]]
principal = "admin"
roles = ["operator"]
token_env = "ADMIN_TOKEN"
"""
ENVIRON = {"SHOP_TOKEN": TOKEN, "ADMIN_TOKEN": f"{ADMIN}\n"}


def callers(config: Config, environ: dict[str, str] | None = None) -> Callers:
    return callers_of(config.callers, config.anonymous, ENVIRON if environ is None else environ, config.source)


@pytest.mark.requirement("IDENT-1")
def test_a_token_names_its_caller(tmp_path: Path) -> None:
    known = callers(load(tmp_path, TWO))
    assert known.caller([f"Bearer {TOKEN}"]) == SHOP
    assert known.caller([f"bearer  {ADMIN} "]) == Caller("default", "admin", frozenset(("operator",)))
    assert known.configured


@pytest.mark.requirement("IDENT-1")
@pytest.mark.parametrize(
    "sent",
    [
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
        [f"Bearer {TOKEN}x"],
        [f"Bearer {TOKEN[:-1]}"],
        [f"Basic {TOKEN}"],
        [TOKEN],
        [f"Bearer {TOKEN}", f"Bearer {ADMIN}"],
        [f"Bearer {TOKEN} {ADMIN}"],
        [f"Bearer {digest(TOKEN).hex()}"],
        ["Bearer \ud800"],
    ],
)
def test_everything_else_is_refused_in_words_that_quote_nothing(tmp_path: Path, sent: list[str]) -> None:
    known = callers(load(tmp_path, TWO))
    with pytest.raises(Unauthenticated) as refused:
        known.caller(sent)
    assert TOKEN[:8] not in str(refused.value)
    assert TOKEN not in repr(known)


@pytest.mark.requirement("IDENT-2")
def test_without_callers_everybody_is_anonymous_whatever_it_sends(tmp_path: Path) -> None:
    known = callers(load(tmp_path, ""), {})
    assert known.caller([]) == known.caller(["Bearer of anything"]) == Caller()
    assert not known.configured


@pytest.mark.requirement("IDENT-3")
def test_who_shows_no_token_is_anonymous_where_the_configuration_says_who_that_is(tmp_path: Path) -> None:
    known = callers(load(tmp_path, TWO + '[anonymous]\ntenant = "public"\nroles = ["guest"]\n'))
    assert known.caller([]) == Caller("public", "anonymous", frozenset(("guest",)))
    with pytest.raises(Unauthenticated):
        known.caller(["Bearer wrong"])
    alone = callers(load(tmp_path, '[anonymous]\nroles = ["operator"]\n'), {})
    assert alone.caller([]).roles == {"operator"}
    assert not alone.configured


@pytest.mark.requirement("IDENT-5")
def test_a_token_in_a_file_may_be_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, now = tmp_path / "token", [100.0]
    file.write_text(f"{TOKEN}\n")
    token = TokenFile(file, lambda: now[0])
    assert token() == digest(TOKEN)
    file.write_text(ADMIN)
    assert token() == digest(TOKEN)  # it was looked at in this second
    now[0] += FILE_SECONDS
    assert token() == digest(ADMIN)
    file.unlink()
    now[0] += FILE_SECONDS
    with caplog.at_level(logging.WARNING):
        assert token() is None
        now[0] += FILE_SECONDS
        assert token() is None
    assert len(caplog.records) == 1
    assert ADMIN not in caplog.text
    file.write_text(TOKEN)
    now[0] += FILE_SECONDS
    assert token() == digest(TOKEN)


@pytest.mark.requirement("IDENT-5")
def test_a_principal_may_have_two_tokens_while_one_takes_the_place_of_the_other(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(ADMIN)
    text = f"""
[[callers]]
principal = "shop"
token_env = "SHOP_TOKEN"
[[callers]]
principal = "shop"
token_file = "{tmp_path}/token"
"""
    known = callers(load(tmp_path, text))
    assert known.caller([f"Bearer {TOKEN}"]) == known.caller([f"Bearer {ADMIN}"]) == Caller(principal="shop")


@pytest.mark.requirement("IDENT-6")
@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({}, "callers.0.token_env: the environment variable SHOP_TOKEN is not set"),
        (
            {"SHOP_TOKEN": "secret"},
            "callers.0.token_env: the token in SHOP_TOKEN has 6 characters; it needs 16 to 4096",
        ),
        (
            {"SHOP_TOKEN": "a secret of many words"},
            (
                "callers.0.token_env: the token in SHOP_TOKEN holds other characters than letters, digits and"
                " . _ ~ + / - with = at the end"
            ),
        ),
        (
            {"SHOP_TOKEN": TOKEN, "ADMIN_TOKEN": TOKEN},
            "callers.1: has the same token as callers.0; each needs its own",
        ),
    ],
)
def test_a_token_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, environ: dict[str, str], line: str
) -> None:
    config = load(tmp_path, TWO)
    with pytest.raises(ConfigError) as error:
        callers(config, environ)
    assert str(error.value) == f"{config.source}: {line}"


@pytest.mark.requirement("IDENT-6")
def test_a_file_that_holds_no_token_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "token"
    config = load(tmp_path, f'[[callers]]\nprincipal = "shop"\ntoken_file = "{file}"\n')
    where = f"{config.source}: callers.0.token_file:"
    for content, words in ((None, f"{file} cannot be read: no such file"), (b"\xff" * 20, f"{file} holds no token")):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigError) as error:
            callers(config)
        assert str(error.value).startswith(f"{where} {words}")


@pytest.mark.requirement("IDENT-6")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[[callers]]\nprincipal = "a"\ntoken = "x"\n',
            (
                "turnwire.toml: callers.0.token: a secret does not belong in the configuration; set token_env to the"
                " name of an environment variable, or token_file to the path of a file that holds it"
            ),
        ),
        (
            '[[callers]]\nprincipal = "a"\ntoken_env = "A"\ntoken_file = "b"\n',
            "turnwire.toml: callers.0.token_file: the token comes from token_env already; set token_env or token_file",
        ),
        (
            '[[callers]]\nprincipal = "a"\n',
            (
                "turnwire.toml: callers: nobody could call: give a caller token_env or token_file, or add the section"
                " anonymous"
            ),
        ),
        (
            '[[callers]]\nprincipal = "a"\ntoken_env = "A"\n[[callers]]\nprincipal = "a"\nroles = ["x"]\n',
            "turnwire.toml: callers.1.principal: principal 'a' stands here before with another tenant or other roles",
        ),
        (
            '[[callers]]\nprincipal = "a"\nrole = ["x"]\n',
            "turnwire.toml: callers.0.role: unknown key; did you mean roles?",
        ),
        (
            '[[callers]]\nprincipal = "a\\u0000"\n',
            "turnwire.toml: callers.0.principal: a principal is one line of printable characters",
        ),
        (
            '[agents.a]\nrun_as = "nobody"\n',
            'turnwire.toml: agents.a.run_as: no entry of callers has the principal "nobody"',
        ),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(tmp_path: Path, text: str, line: str) -> None:
    assert refusal(tmp_path, text) == line
