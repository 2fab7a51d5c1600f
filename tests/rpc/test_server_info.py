"""What GetServerInfo says of the models of a configuration."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from rpc.server import SECONDS

from turnwire.v1 import server_service_pb2, server_service_pb2_grpc
from turnwired.app import running
from turnwired.config.load import load_config

pytestmark = pytest.mark.anyio

CONFIG = """
[server]
listen = "127.0.0.1:0"
[store]
path = "memory"
[tools]
entry_points = false
[providers.openai]
models = ["gpt-4o-mini", "gpt-nobody-has-heard-of"]
[providers.own]
profile = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
models = ["qwen", "other"]
prices.qwen = { input_per_million = 0, output_per_million = 0 }
"""


@pytest.mark.requirement("RPC-28")
async def test_a_model_is_priced_when_the_configuration_or_the_public_list_knows_its_price(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.toml"
    path.write_text(CONFIG, encoding="utf-8")
    config = load_config(path, {})
    async with running(config, {}) as service, grpc.aio.insecure_channel(service.address) as channel:
        stub: server_service_pb2_grpc.ServerServiceAsyncStub = server_service_pb2_grpc.ServerServiceStub(channel)
        info = await stub.GetServerInfo(server_service_pb2.GetServerInfoRequest(), timeout=SECONDS)
    assert {
        (provider.provider, model.model): model.priced for provider in info.providers for model in provider.models
    } == {
        ("openai", "gpt-4o-mini"): True,
        ("openai", "gpt-nobody-has-heard-of"): False,
        ("own", "qwen"): True,  # a price of nothing is a price
        ("own", "other"): False,
    }
