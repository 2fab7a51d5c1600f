"""Configuration from a file and the environment: what is read, what is chosen, and what every mistake says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from config.kit import load, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwired.config import (
    ListenAddress,
    agents_of,
    default_model_of,
    load_config,
)
from turnwired.config.address import parse_listen
from turnwired.config.model import key_paths
from turnwired.domain.errors import ConfigError
from turnwired.domain.model import GenerationOptions, ModelSelection, Thinking, ThinkingMode
from turnwired.domain.policy import LimitMode

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.requirement("CONFIG-1")
def test_without_anything_there_is_a_default_agent_on_the_embedded_model(tmp_path: Path) -> None:
    config = load_config(None, {}, tmp_path)
    assert config.source == "built-in"
    assert list(config.providers) == ["local"]
    agents = agents_of(config)
    assert list(agents) == ["default"]
    assert agents["default"].model == ModelSelection("local", "smollm2-135m-instruct")
    assert config.server.address == ListenAddress("127.0.0.1", 7443)
    assert config.telemetry.otlp_endpoint is None


@pytest.mark.requirement("CONFIG-1")
@pytest.mark.parametrize(
    ("environ", "model", "base_url"),
    [
        ({"OPENAI_API_KEY": "k"}, "gpt-5.4-mini", None),
        ({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "gpt-5.4"}, "gpt-5.4", None),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_MODEL": "m"}, "m", "http://127.0.0.1:1/v1"),
    ],
)
def test_an_openai_variable_chooses_that_provider(
    tmp_path: Path, environ: dict[str, str], model: str, base_url: str | None
) -> None:
    config = load(tmp_path, "[server]\nreflection = false\n", environ)
    assert list(config.providers) == ["openai"]
    assert config.providers["openai"].base_url == base_url
    assert config.providers["openai"].api_key_env == "OPENAI_API_KEY"
    # Without a key it is a server of one's own, which may need none.
    assert config.providers["openai"].profile == ("openai" if "OPENAI_API_KEY" in environ else "openai-compatible")
    assert agents_of(config)["default"].model == ModelSelection("openai", model)
    assert "'k'" not in repr(config)


@pytest.mark.requirement("CONFIG-1")
def test_empty_openai_variables_are_unset_and_configured_providers_win(tmp_path: Path) -> None:
    assert list(load(tmp_path, "", {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}).providers) == ["local"]
    config = load(tmp_path, '[providers.mine]\nmodels = ["a/b"]\n', {"OPENAI_API_KEY": "k"})
    assert agents_of(config)["default"].model == ModelSelection("mine", "a/b")


@pytest.mark.requirement("OUT-9", "OUT-10")
def test_an_agents_options_are_those_of_its_model(tmp_path: Path) -> None:
    text = "[agents.a.options]\ntemperature = 0\nstop_sequences = ['END']\nthinking.mode = 'disabled'\n[agents.b]\n"
    agents = agents_of(load(tmp_path, text))
    assert agents["a"].model is not None
    assert agents["a"].model.options == GenerationOptions(
        temperature=0.0, stop_sequences=("END",), thinking=Thinking(ThinkingMode.DISABLED)
    )
    assert agents["b"].model is not None
    assert agents["b"].model.options == GenerationOptions()


@pytest.mark.requirement("CONFIG-1")
def test_the_default_model_is_the_first_of_a_provider_else_the_first_agents(tmp_path: Path) -> None:
    text = '[providers.a]\n[providers.b]\nmodels = ["m", "n"]\n[agents.x]\nmodel = "a/z"\n'
    assert default_model_of(load(tmp_path, text)) == ModelSelection("b", "m")
    text = '[providers.a]\n[agents.x]\nmodel = "a/org/z"\n'
    assert default_model_of(load(tmp_path, text)) == ModelSelection("a", "org/z")


@pytest.mark.requirement("CONFIG-1")
def test_the_file_is_the_one_given_else_the_one_named_else_the_one_that_is_there(tmp_path: Path) -> None:
    for name in ("given", "named", "turnwire"):
        (tmp_path / f"{name}.toml").write_text(f'[store]\npath = "{name}.db"\n')
    named = {"TURNWIRE_CONFIG": str(tmp_path / "named.toml")}
    assert load_config(tmp_path / "given.toml", named, tmp_path).store.path == "given.db"
    assert load_config(None, named, tmp_path).store.path == "named.db"
    assert load_config(None, {}, tmp_path).store.path == "turnwire.db"
    assert load_config(None, {}, tmp_path).source == str(tmp_path / "turnwire.toml")


MISTAKES = [
    ("x = 1", "x: unknown key"),
    ("[server]\nlisen = 'a:1'", "server.lisen: unknown key; did you mean listen?"),
    ("[agents.a.options]\ntemperature = -1", "agents.a.options.temperature: must be a number of at least 0"),
    (
        "[agents.a.options.thinking]\nmode = 'adaptive'\nbudget_tokens = 5",
        "agents.a.options.thinking.budget_tokens: needs the mode ENABLED",
    ),
    ("[agents.a]\nmodl = 'a/b'", "agents.a.modl: unknown key; did you mean model?"),
    ("source = 'x'", "source: unknown key"),
    ("server = 1", "server: takes a table"),
    ("agents = 1", "agents: takes a table"),
    ("mcp_servers.x = 1", "mcp_servers.x: takes a table"),
    ("[server]\nmax_active_runs = 0", "server.max_active_runs: must be greater than or equal to 1"),
    ("[server]\ngrace_seconds = nan", "server.grace_seconds: must be less than or equal to 3600"),
    ("[store]\npath = ':memory:'", 'store.path: :memory: is no path of a database; did you mean "memory"?'),
    ("[store]\npath = 'Memory'", 'store.path: Memory is no path of a database; did you mean "memory"?'),
    ("[server]\nlisten = '7443'", 'server.listen: takes "host:port", "[v6 address]:port" or "unix:path"'),
    ("[agents.default]\nmodel = 'x'", 'agents.default.model: takes "provider/model", such as "openai/gpt-5.4-mini"'),
    ("[agents.default]\nmodel = 'x/y'", 'agents.default.model: there is no provider "x"; configured: local'),
    (
        "[providers.x]",
        'agents.default.model: is required, because no provider names its models; add models = ["..."] to providers.x',
    ),
    (
        "[agents.'a b']",
        "agents.a b: an id is 1 to 64 letters, digits, '_', '.' or '-', beginning with a letter or digit",
    ),
    ("[providers.x]\nbase_url = 'x.org'", "providers.x.base_url: takes a URL such as https://api.example.com/v1"),
    ("[telemetry]\notlp_endpoint = 'x'", "telemetry.otlp_endpoint: takes a URL such as http://127.0.0.1:4317"),
    ("[tools]\npython = ['x']", 'tools.python.0: takes "module:attribute", such as "my_package.tools:search"'),
    (
        "[providers.x.prices.m]\ninput_per_million = 1",
        "providers.x.prices.m.output_per_million: is required, unless gpu_ms prices the time of a call",
    ),
    ("[server\n", "is not TOML: Expected ']' at the end of a table declaration (at line 1, column 8)"),
    (
        "[server]\nlistn = 1\ngrace = 2\nreflect = 3",
        "server.listn: unknown key; did you mean listen? (and 2 more errors)",
    ),
]


@pytest.mark.requirement("CONFIG-2")
@pytest.mark.parametrize(("text", "line"), MISTAKES, ids=[line.split(":")[0] for _, line in MISTAKES])
def test_a_mistake_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, line: str) -> None:
    assert refusal(tmp_path, text) == f"turnwire.toml: {line}"


@pytest.mark.requirement("CONFIG-2")
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^.*/none\.toml: cannot be read: no such file or directory$"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match=r"cannot be read: is a directory$"):
        load_config(None, {"TURNWIRE_CONFIG": str(tmp_path)})
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.toml: is not UTF-8 text \(byte 2\)$"):
        load_config(tmp_path / "latin.toml", {})
    (tmp_path / "large.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="is larger than 1 MiB"):
        load_config(tmp_path / "large.toml", {})


@pytest.mark.requirement("CONFIG-2")
@given(st.text(max_size=60) | st.sampled_from([text for text, _ in MISTAKES]).flatmap(lambda t: st.just(t[:-1])))
@settings(max_examples=150, deadline=None)
def test_any_text_is_taken_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    line = f"{file}: taken"
    try:
        load_config(file, {})
    except ConfigError as error:
        line = str(error)
    assert line.startswith(f"{file}: ")
    assert len(line.splitlines()) == 1


@pytest.mark.requirement("CONFIG-3")
def test_variables_override_the_file(tmp_path: Path) -> None:
    text = """
    [server]
    listen = "127.0.0.1:1"
    [agents.My-Agent]
    model = "mine/a"
    [providers.mine]
    models = ["a"]
    [mcp_servers.time]
    command = "x"
    """
    config = load(
        tmp_path,
        text,
        {
            "TURNWIRE_SERVER__LISTEN": "[::1]:2",
            "TURNWIRE_SERVER__REFLECTION": "false",
            "TURNWIRE_SERVER__GRACE_SECONDS": "2.5",
            "TURNWIRE_AGENTS__MY_AGENT__MODEL": "mine/b",
            "TURNWIRE_POLICY__LOOP__MAX_STEPS": "5",
            "TURNWIRE_POLICY__TIMEOUT__RUN": "2m",
            "TURNWIRE_AGENTS__MY_AGENT__POLICY__TIMEOUT__TOOL_CALL": "unbounded",
            "TURNWIRE_TOOLS__PYTHON": '["a.b:c"]',
            "TURNWIRE_MCP_SERVERS__TIME__ENV__Log_Level": "debug",
            "TURNWIRE_SHARED": "not a setting: no section",
        },
    )
    assert config.server.address == ListenAddress("::1", 2)
    assert (config.server.reflection, config.server.grace_seconds) == (False, 2.5)
    assert list(config.agents) == ["My-Agent"]
    assert config.agents["My-Agent"].model == "mine/b"
    assert config.agents["My-Agent"].policy.timeout.tool_call is LimitMode.UNBOUNDED
    assert (config.policy.loop.max_steps, config.policy.timeout.run) == (5, 120.0)
    assert config.tools.python == ("a.b:c",)
    assert config.mcp_servers["time"] == {"command": "x", "env": {"Log_Level": "debug"}}


@pytest.mark.requirement("CONFIG-3")
@pytest.mark.parametrize(
    ("text", "variable", "value", "line"),
    [
        ("", "TURNWIRE_SERVER__LISTN", "x", "unknown key; did you mean listen?"),
        ("", "TURNWIRE_POLICY__LOOP__MAX_STEPS", "0", "0 is out of range; takes 1 or more, or runtime_default"),
        ("", "TURNWIRE_POLICY__LOOP__MAX_STEPS", "many", "takes a whole number or a mode word"),
        ("", "TURNWIRE_TOOLS__PYTHON", "[x", 'takes a list such as ["a", "b"]'),
        ("", "TURNWIRE_SERVER____LISTEN", "x", "names no setting; write TURNWIRE_<SECTION>__<KEY>"),
        ("server = 1", "TURNWIRE_SERVER__LISTEN", "x", "server is a value and has no keys below it"),
    ],
)
def test_a_wrong_variable_is_one_line_that_names_it(
    tmp_path: Path, text: str, variable: str, value: str, line: str
) -> None:
    assert refusal(tmp_path, text, {variable: value}) == f"{variable}: {line}"


@pytest.mark.requirement("CONFIG-3")
def test_a_wrong_openai_variable_is_named_too(tmp_path: Path) -> None:
    line = refusal(tmp_path, "", {"OPENAI_BASE_URL": "https://me:pass-word@api.example.com/v1"})
    assert line == "OPENAI_BASE_URL: a URL must hold no user or password; use api_key_env or api_key_file"


@pytest.mark.requirement("CONFIG-4")
@pytest.mark.parametrize("key", ["api_key", "api-key", "token", "password"])
def test_a_literal_key_is_refused_with_what_to_do_and_not_repeated(tmp_path: Path, key: str) -> None:
    line = refusal(tmp_path, f'[providers.openai]\nmodels = ["m"]\n{key} = "sk-1234"\n')
    assert line.startswith(
        f"turnwire.toml: providers.openai.{key}: a secret does not belong in the configuration; set "
    )
    assert "api_key_env" in line
    assert "api_key_file" in line
    assert "sk-1234" not in line


@pytest.mark.requirement("CONFIG-4")
def test_a_key_where_the_name_of_a_variable_belongs_is_refused_and_not_repeated(tmp_path: Path) -> None:
    line = refusal(tmp_path, '[providers.openai]\napi_key_env = "sk-1234"\n')
    assert line == (
        "turnwire.toml: providers.openai.api_key_env: takes the name of an environment variable, not the key itself"
    )
    line = refusal(tmp_path, '[providers.x]\napi_key_env = "K"\napi_key_file = "/f"\n')
    assert line == (
        "turnwire.toml: providers.x.api_key_file: the key comes from api_key_env already; set one of the two"
    )


@pytest.mark.requirement("CONFIG-5")
@pytest.mark.parametrize("listen", ["0.0.0.0:7443", "[::]:7443", "192.0.2.1:1", "example.com:7443"])
def test_listening_beyond_this_machine_must_be_asked_for(tmp_path: Path, listen: str) -> None:
    line = refusal(tmp_path, f'[server]\nlisten = "{listen}"\n')
    assert line.startswith(f"turnwire.toml: server.listen: {listen} can be reached from other machines")
    assert "server.insecure_listen = true" in line
    config = load(tmp_path, f'[server]\nlisten = "{listen}"\ninsecure_listen = true\n')
    assert config.server.listen == listen


@pytest.mark.requirement("CONFIG-5")
@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("127.8.0.1:1", ListenAddress("127.8.0.1", 1)),
        ("localhost:65535", ListenAddress("localhost", 65535)),
        ("[::1]:80", ListenAddress("::1", 80)),
        ("unix:/run/t.sock", ListenAddress(unix_path="/run/t.sock")),
    ],
)
def test_local_addresses_are_taken(tmp_path: Path, listen: str, address: ListenAddress) -> None:
    config = load(tmp_path, f'[server]\nlisten = "{listen}"\n')
    assert config.server.address == address


@pytest.mark.requirement("CONFIG-5")
@pytest.mark.parametrize("text", ["", ":1", "h:", "h:65536", "h:x", "::1:80", "unix:", "a b:1", "[::1]"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="takes"):
        parse_listen(text)


@pytest.mark.requirement("CONFIG-7")
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.splitlines()[0] for example in EXAMPLES])
def test_every_documented_example_is_taken(tmp_path: Path, example: str) -> None:
    load(tmp_path, example)


@pytest.mark.requirement("CONFIG-7")
def test_every_key_has_an_example() -> None:
    shown: set[tuple[str, ...]] = set()

    def walk(data: object, path: tuple[str, ...]) -> None:
        shown.add(path)
        if isinstance(data, dict):
            for key, value in data.items():
                walk(value, (*path, str(key)))
        if isinstance(data, list):
            for index, value in enumerate(data):
                walk(value, (*path, str(index)))

    for example in EXAMPLES:
        walk(tomllib.loads(example), ())

    def matches(keys: tuple[str, ...], path: tuple[str, ...]) -> bool:
        return len(keys) == len(path) and all(key in ("*", word) for key, word in zip(keys, path, strict=True))

    assert [".".join(keys) for keys in key_paths() if not any(matches(keys, path) for path in shown)] == []


@pytest.mark.requirement("CONFIG-7")
def test_reading_the_configuration_imports_no_adapter() -> None:
    code = """
import sys
import turnwired.config
adapters = ("providers", "tools", "store", "telemetry", "rpc", "engine", "turn")
heavy = [name for name in ("openai", "anthropic", "mcp", "grpc", "genai_prices") if name in sys.modules]
loaded = [name for name in adapters if f"turnwired.{name}" in sys.modules]
sys.exit(str(heavy + loaded) if heavy + loaded else 0)
"""
    result = subprocess.run([sys.executable, "-c", code], check=False, timeout=30, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
