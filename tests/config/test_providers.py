"""Profiles and their fields in a configuration: what a provider becomes, and what every mistake says."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from config.kit import load, refusal

from turnwired.app import offered_models, price_card, profile_summaries, profile_text, provider_profiles, running
from turnwired.config import agents_of, load_config
from turnwired.domain.errors import ConfigError, InvalidRequest
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import ModelSelection
from turnwired.domain.run import Caller, TurnSpec
from turnwired.providers.profiles import InputKind, Profile, StructuredOutput, shipped

DOCS = Path(__file__).parents[2] / "docs" / "providers.md"
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


def profiles(directory: Path, text: str, environ: dict[str, str] | None = None) -> dict[str, Profile]:
    """The profiles of the providers of a configuration."""
    file = directory / "turnwire.toml"
    file.write_text(text)
    return provider_profiles(load_config(file, environ or {}, offered=offered_models()))


@pytest.mark.requirement("PROFILE-40")
def test_a_provider_sets_any_field_of_its_profile_beside_its_own_keys(tmp_path: Path) -> None:
    text = """
    [profiles.gateway]
    extends = "groq"
    base_url = "https://gateway.example.com/v1"
    [providers.a]
    profile = "gateway"
    api_key_env = "A_KEY"
    inputs = []
    structured_output = "prompt"
    [[providers.a.errors]]
    kind = "quota"
    codes = ["broke"]
    """
    profile = profiles(tmp_path, text)["a"]
    assert (profile.name, profile.key_env, profile.inputs) == ("a", "A_KEY", frozenset())
    assert profile.base_url == "https://gateway.example.com/v1"
    assert profile.structured_output is StructuredOutput.PROMPT
    assert profile.errors[0].kind == "quota"
    assert profile.errors[1:] == shipped()["groq"].errors


@pytest.mark.requirement("PROFILE-40", "CONFIG-3")
def test_variables_set_fields_too(tmp_path: Path) -> None:
    environ = {
        "TURNWIRE_PROVIDERS__GROQ__PARALLEL_TOOL_CALLS": "false",
        "TURNWIRE_PROVIDERS__GROQ__OUTPUT_TOKENS_FIELD": "max_tokens",
        "TURNWIRE_PROVIDERS__GROQ__INPUTS": '["image", "pdf"]',
        "TURNWIRE_PROFILES__MINE__EXTENDS": "groq",
        "TURNWIRE_PROFILES__MINE__KEY_REQUIRED": "false",
        "TURNWIRE_PROVIDERS__MINE__LIST_PRICES": "false",
    }
    found = profiles(tmp_path, "", environ)
    assert (found["groq"].parallel_tool_calls, found["groq"].output_tokens_field) == (False, "max_tokens")
    assert found["groq"].inputs == {InputKind.IMAGE, InputKind.PDF}
    assert not found["mine"].key_required


MISTAKES = [
    (
        "[providers.groq]\ntool_choce = ['auto']",
        "providers.groq.tool_choce: a provider profile has no such field; did ",
    ),
    ("[providers.groq]\ninputs = ['smell']", "providers.groq.inputs[0]: takes one of image, pdf, audio"),
    ("[providers.groq]\nheaders = { Authorization = 'sk-1' }", "providers.groq.headers.Authorization: a key does not "),
    (
        "[providers.groq.query]\nkey = 'sk-1'",
        "providers.groq.query.key: a key does not belong here; use api_key_env or header_env",
    ),
    (
        "[profiles.groq.query]\nkey = 'sk-1'",
        "profiles.groq.query.key: a key does not belong here; use key_env or header_env",
    ),
    (
        "[providers.bedrock]\nmodels = ['m']\napi_key_env = 'K'",
        "providers.bedrock.api_key_env: it signs in to aws; a key needs",
    ),
    ("[providers.groq]\nextends = 'openai'", "providers.groq.extends: a provider has a profile instead"),
    (
        "[providers.nobody]\nmodels = ['m']",
        "providers.nobody: there is no provider profile 'nobody'; set profile to one",
    ),
    (
        "[providers.nobody]",
        "providers.nobody: there is no provider profile 'nobody'; set profile to one of anthropic, ",
    ),
    ("[providers.a]\nprofile = 'grq'", "providers.a: there is no provider profile 'grq'; set profile to one of "),
    ("[profiles.x]\nextends = 'nobody'", "profiles.x.extends: there is no profile 'nobody'; turnwire profiles lists "),
    ("[profiles.x]\nextends = 'grq'", "profiles.x.extends: there is no profile 'grq'; did you mean groq?"),
    ("[profiles.x]\nextends = 'x'", "profiles.x.extends: there is no profile 'x' but this one; turnwire profiles "),
    ("[profiles.x]\nbase_url = 'https://x.example'", "profiles.x: say which wire it speaks, or which profile"),
    ("[profiles.groq]\nwire = 'smoke'", "profiles.groq.wire: takes one of openai.chat, openai.responses"),
]


@pytest.mark.requirement("PROFILE-40")
@pytest.mark.parametrize(("text", "line"), MISTAKES, ids=[line.split(":")[0] for _, line in MISTAKES])
def test_a_mistake_in_a_field_is_one_line_with_file_and_path(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        profiles(tmp_path, text)
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(f"turnwire.toml: {line}")
    assert "sk-1" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.requirement("PROFILE-40")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[providers.anthropic.option_fields]\ntemprature = 'x'",
            "option_fields.temprature: anthropic.messages has ",
        ),
        ("[providers.anthropic]\ntool_calling = 'json_schema'", "tool_calling: anthropic.messages has native "),
    ],
)
async def test_what_a_wire_cannot_do_is_told_at_the_start_with_the_file(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "turnwire.toml"
    file.write_text(f"{text}\n[store]\npath = 'memory'\n[server]\nlisten = '127.0.0.1:0'\n")
    with pytest.raises(ConfigError) as caught:
        async with running(load_config(file, {}, offered=offered_models()), {}):
            pass
    assert str(caught.value).startswith(f"{file}: providers.anthropic.{line}")


@pytest.mark.requirement("PROFILE-40")
def test_the_names_of_the_keys_place_are_the_sections_own(tmp_path: Path) -> None:
    line = refusal(tmp_path, "[providers.groq]\nkey_env = 'K'\n")
    assert line == "turnwire.toml: providers.groq.key_env: is called api_key_env here"
    assert refusal(tmp_path, "profiles.x = 1") == "turnwire.toml: profiles.x: takes a table"


@pytest.mark.requirement("PROFILE-41")
@pytest.mark.parametrize("name", ["groq", "anthropic", "mistral", "openai-responses", "local"])
def test_an_empty_section_is_a_provider_of_its_own_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "turnwire.toml"
    file.write_text(f"[providers.{name}]\n")
    config = load_config(file, {}, offered=offered_models())
    assert agents_of(config)["default"].model == ModelSelection(name, shipped()[name].models[0])
    assert provider_profiles(config) == {name: shipped()[name]}


@pytest.mark.requirement("PROFILE-41")
def test_the_models_of_a_profile_of_ones_own_are_offered_too(tmp_path: Path) -> None:
    file = tmp_path / "turnwire.toml"
    file.write_text('[profiles.a]\nextends = "b"\n[profiles.b]\nextends = "groq"\nmodels = ["m"]\n[providers.a]\n')
    assert load_config(file, {}, offered=offered_models()).default_model() == "a/m"
    file.write_text('[profiles.a]\nextends = "b"\n[profiles.b]\nextends = "a"\n[providers.a]\n')
    with pytest.raises(ConfigError, match=r"agents\.default\.model: is required"):
        load_config(file, {}, offered=offered_models())


@pytest.mark.requirement("PROFILE-41")
def test_a_profile_without_models_asks_for_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'add models = \["\.\.\."\] to providers\.ollama$'):
        profiles(tmp_path, "[providers.ollama]\n")


@pytest.mark.requirement("PROFILE-25", "PROFILE-40")
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.splitlines()[0] for example in EXAMPLES])
def test_every_example_of_the_document_is_taken(tmp_path: Path, example: str) -> None:
    assert profiles(tmp_path, example)


@pytest.mark.requirement("PROFILE-42")
def test_a_summary_says_where_the_key_belongs_and_what_is_missing(tmp_path: Path) -> None:
    config = load(tmp_path, '[providers.groq]\nmodels = ["m"]\n[profiles.x]\nextends = "groq"\nkey_file = "/no/key"\n')
    lines = {line.name: line for line in profile_summaries(config, {"GROQ_API_KEY": "sk-1"})}
    assert set(lines) == {*shipped(), "x"}
    assert (lines["groq"].key, lines["groq"].problem, lines["groq"].configured) == ("GROQ_API_KEY", "", True)
    assert (lines["x"].key, lines["x"].configured) == ("file /no/key", False)
    assert "put it into the file /no/key" in lines["x"].problem
    assert "AZURE_OPENAI_ENDPOINT" in lines["azure"].problem
    assert [lines[name].key for name in ("vertex", "bedrock", "local")] == ["sign-in: google", "sign-in: aws", ""]
    assert (lines["ollama"].problem, lines["ollama"].key) == ("", "OLLAMA_API_KEY (optional)")
    assert "sk-1" not in repr(lines)
    text = profile_text(config, "groq")
    assert text is not None
    assert 'models = ["m"]' in text
    assert profile_text(config, "nobody") is None


@pytest.mark.anyio
@pytest.mark.requirement("PROFILE-26")
@pytest.mark.parametrize(
    ("environ", "priced"),
    [
        ({}, {"openai": True, "anthropic": True, "own": False, "named": True, "local": False}),
        # Another server than the provider's own: its prices are not known.
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
            {"openai": False, "anthropic": False, "own": False, "named": True, "local": False},
        ),
    ],
)
async def test_list_prices_are_for_the_server_that_is_called(
    tmp_path: Path, environ: dict[str, str], priced: dict[str, bool]
) -> None:
    text = """
    [server]
    listen = "127.0.0.1:0"
    [store]
    path = "memory"
    [providers.openai]
    [providers.anthropic]
    [providers.own]
    profile = "openai"
    base_url = "http://127.0.0.1:9/v1"
    [providers.named]
    profile = "openai"
    base_url = "http://127.0.0.1:9/v1"
    price_list = "openai"
    [providers.local]
    """
    file = tmp_path / "turnwire.toml"
    file.write_text(text)
    card = price_card(load_config(file, environ, offered=offered_models()), environ)
    models = {"anthropic": "claude-haiku-5-5"}
    assert {name: card.has_price(name, models.get(name, "gpt-5.4-mini")) for name in priced} == priced


@pytest.mark.anyio
@pytest.mark.requirement("PROFILE-43")
async def test_a_provider_without_its_key_is_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = '[server]\nlisten = "127.0.0.1:0"\n[store]\npath = "memory"\n[providers.groq]\n[providers.mistral]\n'
    file = tmp_path / "turnwire.toml"
    file.write_text(text)
    with caplog.at_level(logging.WARNING, "turnwired.app"):
        async with running(load_config(file, {}, offered=offered_models()), {"MISTRAL_API_KEY": "k"}):
            pass
    assert [record.getMessage() for record in caplog.records if record.name == "turnwired.app"] == [
        "Provider groq has no key: put it into the environment variable GROQ_API_KEY."
    ]


@pytest.mark.anyio
@pytest.mark.requirement("PROFILE-41")
async def test_a_request_for_a_provider_without_a_model_is_told_the_models_that_it_offers(tmp_path: Path) -> None:
    text = '[server]\nlisten = "127.0.0.1:0"\n[store]\npath = "memory"\n[providers.groq]\n[providers.mistral]\n'
    file = tmp_path / "turnwire.toml"
    file.write_text(text + '[providers.own]\nprofile = "vllm"\n')

    def turn(provider: str) -> TurnSpec:
        hello = Message(Role.USER, (Part("", Text("Hello")),))
        return TurnSpec(Caller("tests"), (hello,), model=ModelSelection(provider, ""))

    async with running(load_config(file, {}, offered=offered_models()), {}) as service:
        for provider, words in (("mistral", ", such as mistral-small-latest"), ("own", "")):
            with pytest.raises(InvalidRequest) as caught:
                await service.engine.count_tokens(turn(provider))
            (violation,) = caught.value.violations
            assert violation.field == "turn.model.model"
            assert violation.description == f"is needed with provider '{provider}'{words}"
