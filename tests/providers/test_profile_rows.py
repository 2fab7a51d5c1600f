"""The shipped rows, what rows of a configuration do to them, and what is refused."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers import corpus

from turnwired.domain.errors import ConfigError
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.build import known_profiles, profile_of, start
from turnwired.providers.errors import ErrorKind, ErrorRule
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.local.provider import LocalProvider
from turnwired.providers.port import ModelLimits
from turnwired.providers.profiles import (
    CallIdForm,
    InputKind,
    ModelLimitRow,
    Profile,
    StructuredOutput,
    Wire,
    profile_toml,
    shipped,
    with_overrides,
)

USUAL = {
    "openai",
    "openai-responses",
    "anthropic",
    "azure",
    "azure-responses",
    "openrouter",
    "groq",
    "mistral",
    "deepseek",
    "xai",
    "gemini",
    "ollama",
    "lmstudio",
    "vllm",
    "llamacpp",
    "openai-compatible",
    "responses-compatible",
    "anthropic-compatible",
    "local",
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
HOSTED = ["openai", "anthropic", "openrouter", "groq", "mistral", "deepseek", "xai", "gemini"]


@pytest.mark.requirement("PROFILE-20")
def test_each_usual_provider_and_each_wire_has_a_profile() -> None:
    assert set(shipped()) >= USUAL
    generic = {shipped()[f"{name}-compatible"].wire for name in ("openai", "responses", "anthropic")}
    assert generic == set(Wire)


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize("name", HOSTED)
def test_a_hosted_provider_needs_its_key_alone(name: str) -> None:
    profile = shipped()[name]
    assert profile.address({}).startswith("https://")
    assert profile.key_required
    assert profile.key_env.endswith("_API_KEY")
    assert profile.models
    assert profile.price_list


@pytest.mark.requirement("PROFILE-20")
def test_what_surprises_of_a_provider_is_in_its_row() -> None:
    rows = shipped()
    assert (rows["anthropic"].auth_header, rows["anthropic"].auth_scheme) == ("x-api-key", "")
    assert rows["anthropic"].headers["anthropic-version"]
    assert (rows["azure"].auth_header, rows["azure"].header_env) == ("api-key", {})
    assert rows["mistral"].call_ids is CallIdForm.ALPHANUMERIC_9
    assert (rows["mistral"].usage_option, rows["mistral"].option_fields) == (False, {"seed": "random_seed"})
    assert rows["deepseek"].inputs == frozenset()
    assert rows["deepseek"].structured_output is StructuredOutput.JSON_OBJECT
    assert rows["deepseek"].reasoning_echo_field == "reasoning_content"
    assert ToolChoiceMode.REQUIRED not in rows["deepseek"].tool_choice
    assert not rows["lmstudio"].named_tool_choice
    assert rows["gemini"].option_fields["seed"] == ""
    assert InputKind.PDF in rows["openrouter"].inputs


CASES = corpus.cases("openai.chat")
SENT = {
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral",
    "ollama": "ollama",
    "openrouter": "openrouter",
    "xai": "xai",
    "llama.cpp": "llamacpp",
    "openai": "openai",
    "vllm": "vllm",
}


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.skipif(not CASES, reason=corpus.ABSENT)
def test_the_rows_agree_with_the_requests_that_were_answered() -> None:
    answered = [case for case in CASES.values() if case["status"] == 200 and isinstance(case["request"], dict)]
    seen = 0
    for case in answered:
        profile = shipped().get(SENT.get(case["provider"], ""))
        if profile is None:
            continue
        request: dict[str, Any] = case["request"]
        seen += 1
        assert profile.usage_option or "stream_options" not in request
        images = "image_url" in json.dumps(request.get("messages", []))
        assert InputKind.IMAGE in profile.inputs or not images, case["provider"]
        if "seed" in request:
            assert profile.option_fields.get("seed", "seed") == "seed"
        if request.get("tool_choice") == "required":
            assert ToolChoiceMode.REQUIRED in profile.tool_choice
    assert seen > 100


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize(
    ("name", "model", "context", "output"),
    [
        ("openai", "gpt-5.4-mini", 400_000, 128_000),
        ("openai", "gpt-5.4-2026-03-01", 1_050_000, 128_000),
        ("openai", "gpt-4o-mini", 128_000, 16_384),
        ("openai", "gpt-9", None, None),
        ("anthropic", "claude-sonnet-4-5-20250929", 200_000, 64_000),
        ("anthropic", "claude-opus-4-20250514", 200_000, 32_000),
        ("anthropic", "claude-opus-4-6", 1_000_000, 128_000),
        ("anthropic", "claude-haiku-5-5", 1_000_000, 128_000),
        ("anthropic", "claude-3-5-haiku-latest", 200_000, None),
        ("groq", "openai/gpt-oss-20b", 131_072, 65_536),
        ("azure-responses", "my-deployment", None, None),
    ],
)
def test_a_row_of_limits_is_found_by_the_name_of_the_model(
    name: str, model: str, context: int | None, output: int | None
) -> None:
    limits = shipped()[name].limits_of(model)
    assert (limits.context_tokens, limits.output_tokens) == (context, output)
    assert limits.source.startswith(f"profile {name}, models ") == (context is not None)


@pytest.mark.requirement("PROFILE-21")
def test_values_replace_tables_join_and_lists_of_tables_come_first() -> None:
    rule = {"kind": "quota", "codes": ["broke"]}
    row = {
        "headers": {"X-Team": "a", "anthropic-version": "2023-06-01"},
        "inputs": [],
        "model_limits": [{"models": "claude-haiku-*", "context_tokens": 5}],
        "errors": [rule],
    }
    profile = with_overrides(shipped(), {"anthropic": row})["anthropic"]
    below = shipped()["anthropic"]
    assert profile.headers == {"X-Team": "a", "anthropic-version": "2023-06-01"}
    assert profile.inputs == frozenset()
    assert profile.model_limits == (ModelLimitRow("claude-haiku-*", 5), *below.model_limits)
    assert profile.errors == (ErrorRule(ErrorKind.QUOTA, ("broke",)), *below.errors)
    assert profile.limits_of("claude-haiku-5-5") == ModelLimits(5, None, "profile anthropic, models claude-haiku-*")
    bare = with_overrides(shipped(), {"anthropic": {"headers": {"anthropic-version": ""}}})["anthropic"]
    assert bare.headers == {}


@pytest.mark.requirement("PROFILE-21")
def test_rows_stand_in_any_order_and_a_circle_is_refused() -> None:
    rows = {"c": {"extends": "b", "path": "/c"}, "b": {"extends": "groq", "path": "/b", "key_env": "B"}}
    known = known_profiles(rows)
    assert (known["c"].path, known["c"].key_env, known["c"].name) == ("/c", "B", "c")
    with pytest.raises(ConfigError, match=r"^profiles\.\w\.extends: \w builds on \w itself$"):
        known_profiles({"a": {"extends": "b"}, "b": {"extends": "a"}})
    with pytest.raises(ConfigError, match=r"^profiles\.a\.extends: there is no profile 'nobody'; turnwire profiles "):
        known_profiles({"a": {"extends": "nobody"}})
    with pytest.raises(ConfigError, match=r"^profiles\.a\.extends: takes the name of a profile$"):
        known_profiles({"a": {"extends": 1}})


@pytest.mark.requirement("PROFILE-22")
@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_row_printed_and_read_again_is_the_same(name: str) -> None:
    profile = shipped()[name]
    printed = tomllib.loads(profile_toml(profile))["profiles"]
    assert with_overrides({}, printed)[name] == profile
    assert with_overrides(shipped(), printed)[name] == profile
    assert with_overrides(shipped(), {"other": printed[name]})["other"] == replace(profile, name="other")


@pytest.mark.requirement("PROFILE-22")
@given(st.dictionaries(TEXT, TEXT))
def test_any_text_in_a_row_is_printed_as_it_is(entries: dict[str, str]) -> None:
    profile = with_overrides(shipped(), {"x": {"extends": "groq", "sign_in_options": entries}})["x"]
    assert tomllib.loads(profile_toml(profile))["profiles"]["x"]["sign_in_options"] == entries


@pytest.mark.requirement("PROFILE-23")
def test_a_base_url_takes_parts_from_the_environment() -> None:
    azure, anthropic = shipped()["azure"], shipped()["anthropic"]
    assert azure.address({"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"}) == (
        "https://r.openai.azure.com/openai/v1"
    )
    assert azure.address({}) == ""
    assert azure.address_variables == ("AZURE_OPENAI_ENDPOINT",)
    assert anthropic.address({}) == "https://api.anthropic.com/v1"
    assert anthropic.address({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}) == "http://127.0.0.1:9/v1"
    either = with_overrides(shipped(), {"x": {"extends": "groq", "base_url": "https://{ONE|TWO}.example/v1"}})["x"]
    assert either.address({"TWO": "b"}) == "https://b.example/v1"
    assert either.address({"ONE": "a", "TWO": "b"}) == "https://a.example/v1"
    assert either.address({"ONE": " "}) == ""


@pytest.mark.requirement("PROFILE-1", "PROFILE-24")
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"headers": {"authorization": "Bearer sk-1"}}, r"headers\.authorization: a key does not belong here"),
        ({"headers": {"X-API-Key": "sk-1"}}, r"headers\.X-API-Key: a key does not belong here"),
        ({"query": {"key": "sk-1"}}, r"query\.key: a key does not belong here"),
        ({"base_url": "https://me:sk-1@x.example/v1"}, r"base_url: a URL must hold no user or password"),
        ({"base_url": "https://{x y}.example/v1"}, r"base_url: takes an http or https URL"),
        ({"base_url": "x.example/v1"}, r"base_url: takes an http or https URL"),
        ({"key_env": "sk-1"}, r"key_env: takes the name of an environment variable"),
        ({"header_env": {"X-Org": "sk-1"}}, r"header_env\.X-Org: takes the name of an environment variable"),
        ({"auth_header": ""}, r"auth_header: takes the name of a header"),
        ({"sign_in": "sk-1"}, r"sign_in: takes one of key, azure, aws, google"),
        ({"tool_choce": ["auto"]}, r"tool_choce: .* no such field; did you mean tool_choice\?"),
        ({"name": "sk-1"}, r"name: a provider profile has no such field"),
        ({"inputs": ["image", "smell"]}, r"inputs\[1\]: takes one of image, pdf, audio"),
        ({"key_required": "yes"}, r"key_required: takes true or false"),
        ({"headers": ["a"]}, r"headers: takes a table of texts"),
        ({"model_limits": [{"context_tokens": 1}]}, r"model_limits\[0\]\.models: is required"),
        (
            {"model_limits": [{"models": "*", "context_tokens": 0}]},
            r"model_limits\[0\]\.context_tokens: takes a number",
        ),
        ({"model_limits": [{"models": "*", "output": 1}]}, r"model_limits\[0\]\.output: unknown key"),
        ({"model_limits": [{"models": "*"}]}, r"model_limits\[0\]: a row needs context_tokens, output_tokens or both"),
        ({"model_limits": {"models": "*"}}, r"model_limits: takes a list of tables with models"),
        ({"errors": [{"kind": "odd", "codes": ["a"]}]}, r"errors\[0\]\.kind: takes one of context_overflow"),
        ({"errors": [{"kind": "auth", "statuses": ["401"]}]}, r"errors\[0\]\.statuses\[0\]: takes a number above 0"),
        ({"errors": [{"kind": "auth"}]}, r"errors\[0\]: a rule needs codes, types, statuses or text"),
    ],
)
def test_a_mistake_names_its_place_and_repeats_no_value(row: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"^profiles\.mine\.{words}") as caught:
        known_profiles({"mine": {"extends": "openai", **row}})
    assert "sk-1" not in str(caught.value)


@pytest.mark.requirement("PROFILE-25")
def test_the_document_is_what_the_script_makes_of_the_code() -> None:
    script = import_module("scripts.profile_docs")
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text, "run scripts/profile_docs.py"
    for name in shipped():
        assert f"| `{name}` |" in text
    assert set(script.meanings_of(Profile)) == set(Profile.settable())


@pytest.mark.requirement("PROFILE-26")
def test_each_price_list_is_known_and_prices_the_default_models() -> None:
    import genai_prices

    for profile in shipped().values():
        for model in profile.models if profile.price_list else ():
            found = genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, provider_id=profile.price_list)
            assert found.total_price > 0, profile.name
    assert shipped()["local"].price_list == shipped()["ollama"].price_list == ""


@pytest.mark.anyio
@pytest.mark.requirement("PROFILE-20")
async def test_a_row_with_a_server_of_its_own_starts_one_unless_it_has_an_address() -> None:
    mine = profile_of("mine", profile="local")
    elsewhere = profile_of("mine", profile="local", base_url="http://127.0.0.1:9/v1")
    providers = [start(profile, {}) for profile in (mine, elsewhere)]
    assert [type(provider) for provider in providers] == [LocalProvider, HttpProvider]
    for provider in providers:
        await provider.aclose()


@pytest.mark.requirement("PROFILE-26")
def test_another_address_is_another_price_list() -> None:
    assert profile_of("openai", profile="openai").price_list == "openai"
    moved = profile_of("openai", profile="openai", base_url="http://127.0.0.1:1/v1")
    assert (moved.price_list, moved.base_url_env, moved.address({"OPENAI_BASE_URL": "http://x.example"})) == (
        "",
        "",
        "http://127.0.0.1:1/v1",
    )
    named = profile_of("p", profile="openai", base_url="http://127.0.0.1:1/v1", fields={"price_list": "groq"})
    assert named.price_list == "groq"
