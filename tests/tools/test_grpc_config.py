"""What names a gRPC service in a configuration, and what is made of it: addresses, TLS, tokens, refusals."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from providers.cloud.kit import certificate
from pydantic import ValidationError
from tools.grpc_kit import call_of, data_of, shop_server, toolset_of

from turnwired.app import assembled
from turnwired.config.load import load_config, read_config
from turnwired.domain.errors import ConfigError
from turnwired.tools.grpc.config import GrpcService

LOCAL = "127.0.0.1:50051"
REMOTE = "shop.example.com:443"


@pytest.mark.requirement("GRPC-23")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"address": "http://shop:80"}, 'takes "host:port"'),
        ({"address": "shop"}, 'takes "host:port"'),
        ({"address": "shop:99999"}, 'takes "host:port"'),
        ({"address": "::1:5"}, 'takes "host:port"'),
        ({"address": REMOTE, "tls": False}, "calls without TLS need insecure = true"),
        ({"address": REMOTE, "tls": True, "insecure": True}, "tls and insecure exclude each other"),
        ({"address": LOCAL, "ca_file": "/ca.pem"}, "ca_file has no use without tls"),
        ({"address": LOCAL, "token_env": "A", "token_file": "/t"}, "token_env and token_file exclude each other"),
        ({"address": LOCAL, "descriptor_set": "/d", "reflection": True}, "descriptor_set and reflection exclude"),
        ({"address": LOCAL, "reflection": False}, "reflection = false needs a descriptor_set"),
        ({"address": LOCAL, "services": ["a b"]}, "String should match pattern"),
        ({"address": LOCAL, "max_streamed": 0}, "greater than or equal to 1"),
        ({"address": LOCAL, "adress": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        GrpcService.model_validate(settings)
    assert words in str(raised.value)


@pytest.mark.requirement("GRPC-23")
@pytest.mark.anyio
async def test_a_refusal_names_the_key_and_no_value() -> None:
    config = read_config({"grpc_services": {"shop": {"address": LOCAL, "token_env": "my secret token"}}}, {})
    with pytest.raises(ConfigError) as raised:
        async with assembled(config, {}):
            pass
    assert str(raised.value).startswith("program: grpc_services.shop.token_env: String should match pattern")
    assert "my secret" not in str(raised.value)
    config = read_config({"grpc_services": {"shop": {"address": REMOTE, "tls": False}}}, {})
    with pytest.raises(ConfigError, match=r"^program: grpc_services\.shop: shop\.example\.com:443 is not of this"):
        async with assembled(config, {}):
            pass


@pytest.mark.requirement("GRPC-23")
def test_a_service_can_be_named_by_variables_alone() -> None:
    config = load_config(None, {"TURNWIRE_GRPC_SERVICES__SHOP__ADDRESS": LOCAL})
    assert GrpcService.model_validate(config.grpc_services["shop"]).address == LOCAL


@pytest.mark.requirement("GRPC-24")
@pytest.mark.parametrize(
    ("settings", "secure"),
    [
        ({"address": REMOTE}, True),
        ({"address": f"dns:///{REMOTE}"}, True),
        ({"address": "10.0.0.7:5"}, True),
        ({"address": REMOTE, "insecure": True}, False),
        ({"address": LOCAL}, False),
        ({"address": "localhost:5"}, False),
        ({"address": "localhost.example.com:5"}, True),
        ({"address": "[::1]:5"}, False),
        ({"address": "[::2]:5"}, True),
        ({"address": "127.8.8.8:5"}, False),
        ({"address": "unix:/run/shop.sock"}, False),
        ({"address": LOCAL, "tls": True}, True),
    ],
)
def test_a_connection_is_tls_unless_it_is_of_this_machine_or_called_insecure(
    settings: dict[str, object], secure: bool
) -> None:
    assert GrpcService.model_validate(settings).secure is secure


@pytest.mark.requirement("GRPC-14")
def test_a_token_is_read_where_it_is_said_to_be(tmp_path: Path) -> None:
    assert GrpcService(address=LOCAL).token({}) == ""
    assert GrpcService(address=LOCAL, token_env="T").token({"T": " abc\n"}) == "abc"
    with pytest.raises(ConfigError, match="environment variable T holds no token"):
        GrpcService(address=LOCAL, token_env="T").token({})
    file = tmp_path / "token"
    for content in ("", "two\nlines"):
        file.write_text(content)
        with pytest.raises(ConfigError, match="holds no token"):
            GrpcService(address=LOCAL, token_file=file).token({})
    file.write_text("tökén")
    with pytest.raises(ConfigError, match="cannot be read"):
        GrpcService(address=LOCAL, token_file=file).token({})


@pytest.mark.requirement("GRPC-24")
@pytest.mark.anyio
async def test_a_connection_is_trusted_by_the_certificate_authority_of_the_configuration_alone(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = shop_server()

    async def get(request: object, context: object) -> dict[str, object]:
        return {"name": "products/1"}

    server.add("shop.v1.ProductService/GetProduct", get)
    await server.start(credentials=grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())]))
    try:
        async with toolset_of(f"localhost:{server.port}", tls=True, ca_file=str(cert)) as toolset:
            assert toolset.failure is None
            output = await toolset.call(call_of("get_product", {"name": "products/1"}))
            assert data_of(output)["name"] == "products/1"
        async with toolset_of(f"localhost:{server.port}", tls=True) as toolset:
            assert toolset.failure is not None
            assert "UNAVAILABLE" in toolset.failure.message
        async with toolset_of(f"localhost:{server.port}", tls=True, ca_file=str(tmp_path / "none")) as toolset:
            assert toolset.failure is not None
            assert toolset.failure.message.endswith("none cannot be read: no such file or directory")
    finally:
        await server.stop()
