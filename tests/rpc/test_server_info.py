"""What GetServerInfo says of the models of a configuration."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from rpc.server import SECONDS

from turnwire.v1 import (
    model_pb2,
    policy_pb2,
    server_service_pb2,
    server_service_pb2_grpc,
    turn_service_pb2,
    turn_service_pb2_grpc,
)
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


@pytest.mark.requirement("PROFILE-50", "PROFILE-52")
async def test_the_limits_of_a_model_are_in_the_server_info_and_in_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.toml"
    path.write_text(CONFIG, encoding="utf-8")
    async with running(load_config(path, {}), {}) as service, grpc.aio.insecure_channel(service.address) as channel:
        stub: server_service_pb2_grpc.ServerServiceAsyncStub = server_service_pb2_grpc.ServerServiceStub(channel)
        turns: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
        info = await stub.GetServerInfo(server_service_pb2.GetServerInfoRequest(), timeout=SECONDS)
        known, unknown, other = [
            (await turns.ResolvePolicy(request, timeout=SECONDS)).effective_policy
            for request in (
                turn_service_pb2.ResolvePolicyRequest(),
                turn_service_pb2.ResolvePolicyRequest(model=model_pb2.ModelSelection(model="gpt-nobody-has-heard-of")),
                turn_service_pb2.ResolvePolicyRequest(model=model_pb2.ModelSelection(model="gpt-4.1")),
            )
        ]
    models = {model.model: model for provider in info.providers for model in provider.models}
    assert (models["gpt-4o-mini"].context_tokens, models["gpt-4o-mini"].max_output_tokens) == (128_000, 16_384)
    assert not models["qwen"].HasField("context_tokens")
    assert not models["gpt-nobody-has-heard-of"].HasField("max_output_tokens")
    assert known.policy.context.max_history_tokens.value == 128_000
    assert other.policy.context.max_history_tokens.value == 1_047_576
    assert not unknown.policy.context.max_history_tokens.HasField("value")
    sources = {item.path: item for item in known.provenance}
    assert sources["output.max_output_tokens"].layer == policy_pb2.POLICY_LAYER_PROVIDER_NATIVE
    assert sources["output.max_output_tokens"].layer_ref.startswith("profile openai, models gpt-4o*; chosen by")


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
