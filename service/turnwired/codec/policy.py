"""Policies, by walking the fields that the domain's and the contract's Policy have in common.

A policy is nine groups of leaves with the same names on both sides. The walk reads the kind of a leaf from the
contract's descriptor, so that a new cap needs one line there and one in ``domain/policy.py``, and none here. What the
contract has and the domain does not enforce yet is listed by ``unenforced_paths``; callers refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from turnwire.v1 import policy_pb2
from turnwired.codec.enums import LIMIT_MODE, PERMISSION_ACTION, POLICY_LAYER, EnumTable
from turnwired.codec.values import seconds_from_pb, seconds_to_pb
from turnwired.domain import policy as domain
from turnwired.domain.errors import CodecError
from turnwired.domain.policy import (
    NO_POLICY,
    EffectivePolicy,
    LimitMode,
    PermissionRule,
    Policy,
    PolicyLayer,
    PolicyProvenance,
)
from turnwired.domain.usage import Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import StrEnum

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One leaf of a group: how it is written into the group's message and read from it."""

    name: str
    write: Callable[[Any, Any], None]
    read: Callable[[Any], object]


def policy_to_pb(value: Policy, out: policy_pb2.Policy) -> None:
    """Sets what is not None."""
    if value is NO_POLICY:
        return
    for group, leaves in _GROUPS.items():
        source, target = getattr(value, group), getattr(out, group)
        for leaf in leaves:
            leaf_value = getattr(source, leaf.name)
            if leaf_value is not None:
                leaf.write(target, leaf_value)


def policy_from_pb(message: policy_pb2.Policy) -> Policy:
    """Unset is None. A limit without a setting, or with a mode of a newer contract, is a CodecError at its path."""
    if not message.ListFields():
        return NO_POLICY
    groups: dict[str, Any] = {}
    for group, leaves in _GROUPS.items():
        if message.HasField(group):  # type: ignore[arg-type]  # the names come from the descriptor itself
            source = getattr(message, group)
            groups[group] = _GROUP_TYPES[group](**{leaf.name: _read(leaf, source, group) for leaf in leaves})
    return Policy(**groups)


def unenforced_paths(message: policy_pb2.Policy) -> list[str]:
    """Paths of set leaves that this service knows from the contract but has no place for."""
    return [
        f"{group.name}.{leaf.name}"
        for group, sub in message.ListFields()
        for leaf, _ in sub.ListFields()
        if all(known.name != leaf.name for known in _GROUPS.get(group.name, ()))
    ]


def effective_policy_to_pb(value: EffectivePolicy, out: policy_pb2.EffectivePolicy) -> None:
    """All fields."""
    out.policy.SetInParent()
    policy_to_pb(value.policy, out.policy)
    for item in value.provenance:
        _provenance_to_pb(item, out.provenance.add())


_ENCODED: Final[dict[int, tuple[EffectivePolicy, bytes]]] = {}
_MOST_ENCODED: Final = 64


def encode_effective_policy(value: EffectivePolicy) -> bytes:
    """As ``effective_policy_to_pb``. Remembers the last few by identity: runs of one agent share one policy object."""
    known = _ENCODED.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    out = policy_pb2.EffectivePolicy()
    effective_policy_to_pb(value, out)
    data = out.SerializeToString()
    if len(_ENCODED) >= _MOST_ENCODED:
        _ENCODED.pop(next(iter(_ENCODED)))
    _ENCODED[id(value)] = (value, data)
    return data


def effective_policy_from_pb(message: policy_pb2.EffectivePolicy) -> EffectivePolicy:
    """All fields."""
    return EffectivePolicy(
        policy_from_pb(message.policy), tuple(_provenance_from_pb(item) for item in message.provenance)
    )


def rule_to_pb(value: PermissionRule, out: policy_pb2.PermissionRule) -> None:
    """All fields."""
    out.permission = value.permission
    out.pattern = value.pattern
    out.action = PERMISSION_ACTION.to_wire[value.action]


def rule_from_pb(message: policy_pb2.PermissionRule) -> PermissionRule:
    """All fields; the action must be set."""
    return PermissionRule(message.permission, message.pattern, PERMISSION_ACTION.from_wire(message.action, "action"))


def _provenance_to_pb(value: PolicyProvenance, out: policy_pb2.PolicyProvenance) -> None:
    out.path = value.path
    out.layer = POLICY_LAYER.to_wire[value.layer]
    out.layer_ref = value.layer_ref
    out.overridden.extend(POLICY_LAYER.to_wire[layer] for layer in value.overridden)
    if value.requested_json is not None:
        out.requested_json = value.requested_json


def _provenance_from_pb(message: policy_pb2.PolicyProvenance) -> PolicyProvenance:
    return PolicyProvenance(
        path=message.path,
        layer=_layer(message.layer),
        layer_ref=message.layer_ref,
        overridden=tuple(_layer(layer) for layer in message.overridden),
        requested_json=message.requested_json if message.HasField("requested_json") else None,
    )


def _layer(number: int) -> PolicyLayer:
    return POLICY_LAYER.from_wire(number, "layer")


def _read(leaf: _Leaf, source: Message, group: str) -> object:
    try:
        return leaf.read(source)
    except CodecError as error:
        raise error.within(leaf.name).within(group) from error


def _limit_leaf(name: str, write_value: Callable[[Any, Any], None], read_value: Callable[[Any], object]) -> _Leaf:
    """A cap: a value of its kind, or a mode."""

    def write(group: Any, value: object) -> None:
        _write_limit(getattr(group, name), value, write_value)

    def read(group: Any) -> object:
        return _read_limit(getattr(group, name), read_value) if group.HasField(name) else None

    return _Leaf(name, write, read)


def _limit_map_leaf(name: str) -> _Leaf:
    """Counts by name."""

    def write(group: Any, value: Mapping[str, int | LimitMode]) -> None:
        for key, limit in value.items():
            _write_limit(getattr(group, name)[key], limit, _write_count)

    def read(group: Any) -> dict[str, object]:
        out: dict[str, object] = {}
        for key, limit in getattr(group, name).items():
            try:
                out[key] = _read_limit(limit, _read_count)
            except CodecError as error:
                raise error.within(f'["{key}"]') from error
        return out

    return _Leaf(name, write, read)


def _write_limit(limit: Any, value: object, write_value: Callable[[Any, Any], None]) -> None:
    if isinstance(value, LimitMode):
        limit.mode = LIMIT_MODE.to_wire[value]
    else:
        write_value(limit, value)


def _read_limit(limit: Any, read_value: Callable[[Any], object]) -> object:
    match limit.WhichOneof("setting"):
        case "value":
            return read_value(limit)
        case "mode":
            return LIMIT_MODE.from_wire(limit.mode, "mode")
        case _:
            raise CodecError("must have a value or a mode")


def _write_count(limit: policy_pb2.CountLimit, value: int) -> None:
    limit.value = value


def _write_duration(limit: policy_pb2.DurationLimit, value: float) -> None:
    limit.value.SetInParent()
    seconds_to_pb(value, limit.value)


def _write_cost(limit: policy_pb2.CostLimit, value: Cost) -> None:
    limit.value.SetInParent()
    limit.value.currency_code = value.currency_code
    limit.value.amount_nanos = value.amount_nanos


def _read_count(limit: policy_pb2.CountLimit) -> int:
    return limit.value


def _read_duration(limit: policy_pb2.DurationLimit) -> float:
    return seconds_from_pb(limit.value)


def _read_cost(limit: policy_pb2.CostLimit) -> Cost:
    return Cost(limit.value.currency_code, limit.value.amount_nanos)


_LIMITS: Final[Mapping[str, tuple[Callable[[Any, Any], None], Callable[[Any], object]]]] = {
    "CountLimit": (_write_count, _read_count),
    "DurationLimit": (_write_duration, _read_duration),
    "CostLimit": (_write_cost, _read_cost),
}


def _rules_leaf(name: str) -> _Leaf:
    def write(group: Any, value: tuple[PermissionRule, ...]) -> None:
        for rule in value:
            rule_to_pb(rule, getattr(group, name).add())

    def read(group: Any) -> tuple[PermissionRule, ...]:
        return tuple(rule_from_pb(rule) for rule in getattr(group, name))

    return _Leaf(name, write, read)


def _enum_leaf(name: str, field: FieldDescriptor) -> _Leaf:
    """An enum of the contract, whose domain twin has the same name."""
    wire = field.enum_type
    assert wire is not None
    twin: type[StrEnum] = getattr(domain, wire.name)
    prefix = wire.values[0].name.removesuffix("UNSPECIFIED")
    table = EnumTable(twin, [(value.name, value.number) for value in wire.values], prefix)

    def write(group: Any, value: StrEnum) -> None:
        setattr(group, name, table.to_wire[value])

    def read(group: Any) -> StrEnum | None:
        return table.from_wire_or_none(getattr(group, name), "")

    return _Leaf(name, write, read)


def _scalar_leaf(name: str) -> _Leaf:
    def write(group: Any, value: object) -> None:
        setattr(group, name, value)

    def read(group: Any) -> object:
        return getattr(group, name) if group.HasField(name) else None

    return _Leaf(name, write, read)


def _leaf(field: FieldDescriptor) -> _Leaf:
    kind = field.message_type.name if field.message_type is not None else ""
    if kind in _LIMITS:
        return _limit_leaf(field.name, *_LIMITS[kind])
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _limit_map_leaf(field.name)
    if kind == "PermissionRule":
        return _rules_leaf(field.name)
    if field.enum_type is not None:
        return _enum_leaf(field.name, field)
    return _scalar_leaf(field.name)


def _type_name(group: str) -> str:
    return f"{group.capitalize()}Policy"


_GROUP_TYPES: Final[Mapping[str, Callable[..., object]]] = {
    field.name: getattr(domain, _type_name(field.name)) for field in fields(Policy)
}


def _leaves(group: str) -> tuple[_Leaf, ...]:
    """What the group has on both sides, in the domain's order. A leaf that only the domain has is a KeyError."""
    message = policy_pb2.Policy.DESCRIPTOR.fields_by_name[group].message_type
    assert message is not None
    return tuple(_leaf(message.fields_by_name[leaf.name]) for leaf in fields(getattr(domain, _type_name(group))))


_GROUPS: Final[Mapping[str, tuple[_Leaf, ...]]] = {group: _leaves(group) for group in _GROUP_TYPES}
