"""Tools out of descriptors: names, annotations, JSON Schemas, and descriptors that are out of order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from tools.grpc_kit import SERVICE, compiled, linked_shop, shop

from turnwired.domain.tool import ToolAnnotations
from turnwired.tools.grpc.descriptors import Linked, link
from turnwired.tools.grpc.listing import Listing, listing_of, wants
from turnwired.tools.grpc.names import snake_case
from turnwired.tools.grpc.schema import MAX_BYTES, MAX_DEPTH, MAX_ENUM_VALUES, schema_of
from turnwired.tools.schema import compile_schema


def schema(message: str, linked: Linked | None = None) -> Any:
    """The schema of a message of the shop, or of another."""
    linked = linked or linked_shop()
    return json.loads(schema_of(linked.pool.FindMessageTypeByName(message), linked.comments))


def listing(files: FileDescriptorSet, *services: str) -> Listing:
    """The tools of a service's files."""
    return listing_of("s", link(files.file), services, (), {})


def takes(message: str, value: object) -> bool:
    """Whether the schema takes the value. Fails unless ProtoJSON agrees."""
    linked = linked_shop()
    descriptor = linked.pool.FindMessageTypeByName(message)
    checked = compile_schema(schema_of(descriptor, linked.comments))
    assert not isinstance(checked, str), checked
    assert isinstance(value, dict)
    fits = not checked.violations(value)
    try:
        json_format.ParseDict(value, GetMessageClass(descriptor)(), descriptor_pool=linked.pool)
    except json_format.ParseError:
        assert not fits, f"the schema takes what ProtoJSON refuses: {value}"
    return fits


@pytest.mark.requirement("GRPC-1")
def test_methods_are_named_by_verb_and_resource_and_shared_names_by_their_service() -> None:
    tools = listing(shop(), SERVICE, "shop.v1.StockService").tools
    assert [tool.ref.native_name for tool in tools] == [
        "product_service_get_product",
        *("list_products", "search_products", "create_product", "update_product", "delete_product"),
        *("count_stock", "replace_labels", "watch_prices", "ping", "shout", "wrap"),
        *("stock_service_get_product", "get_http_route"),
    ]
    assert "get_product" in [tool.ref.native_name for tool in listing(shop(), SERVICE).tools]


@pytest.mark.requirement("GRPC-1")
@pytest.mark.parametrize(
    ("name", "snake"),
    [("GetHTTPRoute", "get_http_route"), ("ListV2", "list_v2"), ("ping", "ping"), ("Get_Product", "get_product")],
)
def test_names_are_split_where_a_word_begins(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.requirement("GRPC-1")
def test_services_of_one_name_get_their_package_and_what_differs_by_case_alone_is_reported() -> None:
    text = """syntax = "proto3"; package %s; message M {}
    service S { rpc Get(M) returns (M); rpc GetURL(M) returns (M); rpc GetUrl(M) returns (M); }"""
    files = FileDescriptorSet(file=[*compiled(text % "a.v1", "a.proto").file, *compiled(text % "b.v1", "b.proto").file])
    found = listing(files, "a.v1.S", "b.v1.S")
    assert [tool.ref.native_name for tool in found.tools] == [
        "a_v1_s_get",
        "a_v1_s_get_url",
        "b_v1_s_get",
        "b_v1_s_get_url",
    ]
    assert [failure.message for failure in found.left_out] == [
        "'a.v1.S.GetUrl' of 's' is left out: another method is called a_v1_s_get_url too",
        "'b.v1.S.GetUrl' of 's' is left out: another method is called b_v1_s_get_url too",
    ]


@pytest.mark.requirement("GRPC-2")
def test_annotations_come_from_the_option_or_the_verb() -> None:
    hints = {tool.ref.native_name: tool.annotations for tool in listing(shop(), SERVICE).tools}
    reads = ToolAnnotations(read_only=True, destructive=False, idempotent=True)
    for name in ("get_product", "list_products", "search_products", "count_stock"):
        assert hints[name] == reads, name
    assert hints["create_product"] == ToolAnnotations(read_only=False, destructive=False)
    assert hints["update_product"] == ToolAnnotations(read_only=False)
    assert hints["delete_product"] == ToolAnnotations(read_only=False, destructive=True)
    assert hints["replace_labels"] == ToolAnnotations(idempotent=True)
    assert hints["shout"] == ToolAnnotations()


@pytest.mark.requirement("GRPC-3")
@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"aBool": True}, True),
        ({"aBool": "yes"}, False),
        ({"aBytes": "AAH/"}, True),
        ({"aDouble": 1.5, "aFloat": 2}, True),
        ({"aUint32": 2**32 - 1}, True),
        ({"aUint32": 2**32}, False),
        ({"aUint32": -1}, False),
        ({"aSint32": -(2**31)}, True),
        ({"aSint32": 2**31}, False),
        ({"aUint64": "18446744073709551615"}, True),
        ({"aUint64": 7}, True),
        ({"aUint64": "seven"}, False),
        ({"aFixed64": -1}, False),
        ({"numbers": [1, "-2", "9223372036854775807"]}, True),
        ({"numbers": 1}, False),
        ({"byNumber": {"-4": {"depth": 1}}}, True),
        ({"byNumber": {"x": {}}}, False),
        ({"byFlag": {"true": "x"}}, True),
        ({"byFlag": {"yes": "x"}}, False),
        ({"inners": [{"depth": 1, "inner": {"depth": 2}}]}, True),
        ({"product": {"kind": "WEIGHT", "labels": {"a": "b"}}}, True),
        ({"product": {"kind": "LENGTH"}}, False),
        ({"product": {"lables": {}}}, False),
    ],
)
def test_a_schema_takes_what_protojson_takes(value: object, fits: bool) -> None:
    assert takes("shop.v1.Everything", value) is fits


@pytest.mark.requirement("GRPC-4")
@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"aTime": "2026-11-30T23:59:59.5Z"}, True),
        ({"aTime": 5}, False),
        ({"aDuration": "-1.5s"}, True),
        ({"aDuration": "1.5"}, False),
        ({"aMask": "name,partOf.name"}, True),
        ({"aMask": ["name"]}, False),
        ({"aStruct": {"a": [1, None]}}, True),
        ({"aStruct": []}, False),
        ({"aValue": [1, {"a": None}]}, True),
        ({"aList": [1, "x"]}, True),
        ({"aStringValue": "x", "aUint64Value": "5"}, True),
        ({"aStringValue": {"value": "x"}}, False),
        ({"aNull": None}, True),
        ({"nothing": {}}, True),
        ({"anAny": {"@type": "type.googleapis.com/shop.v1.Price", "number": 5}}, True),
        ({"anAny": {"number": 5}}, False),
    ],
)
def test_well_known_types_have_their_own_form(value: object, fits: bool) -> None:
    assert takes("shop.v1.Everything", value) is fits


@pytest.mark.requirement("GRPC-4")
def test_a_request_that_is_no_object_is_the_property_value() -> None:
    wrapped = schema("google.protobuf.StringValue")
    assert wrapped["properties"] == {"value": {"type": "string"}}
    assert wrapped["required"] == ["value"]
    assert schema("google.protobuf.Empty") == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.requirement("GRPC-5")
@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"amount": 1}, True),
        ({"onRequest": "ask"}, True),
        ({"amount": 1, "onRequest": "ask"}, False),
        ({"partOf": {"amount": 1, "onRequest": "ask"}}, False),
    ],
)
def test_at_most_one_member_of_a_oneof_is_taken(value: object, fits: bool) -> None:
    assert takes("shop.v1.Product", value) is fits


@pytest.mark.requirement("GRPC-5")
def test_what_is_called_required_is_and_an_optional_field_of_proto3_is_no_oneof() -> None:
    assert schema("shop.v1.UpdateProductRequest")["required"] == ["product"]
    assert "not" not in schema("shop.v1.ListProductsRequest")
    assert schema("shop.v1.Product")["properties"]["createTime"]["readOnly"] is True
    old = link(compiled('syntax = "proto2"; message M { required int32 a = 1; optional int32 b = 2; }').file)
    assert schema("M", old)["required"] == ["a"]


@pytest.mark.requirement("GRPC-6")
def test_a_message_that_holds_itself_refers_to_itself() -> None:
    found = schema("shop.v1.Product")
    assert found["properties"]["partOf"] == {"$ref": "#/$defs/Product"}
    assert found["$defs"]["Product"]["properties"] == found["properties"]
    assert schema("shop.v1.Everything.Inner")["$defs"].keys() == {"Inner"}


@pytest.mark.requirement("GRPC-6")
def test_a_chain_of_messages_ends_at_a_depth_with_the_name_of_what_follows() -> None:
    messages = "".join(f"message M{n} {{ M{n + 1} next = 1; }}\n" for n in range(60))
    linked = link(compiled(f'syntax = "proto3"; package deep; {messages} message M60 {{}}').file)
    node, depth = schema("deep.M0", linked), 0
    while "properties" in node:
        node, depth = node["properties"]["next"], depth + 1
    assert depth == MAX_DEPTH
    assert node == {"type": "object", "description": f"A deep.M{MAX_DEPTH} as ProtoJSON."}


@pytest.mark.requirement("GRPC-6")
def test_a_schema_of_very_many_messages_and_fields_stays_small_enough_to_be_offered() -> None:
    wide = "".join(f"string a_rather_long_name_of_a_field_{n} = {n};\n" for n in range(1, 120))
    messages = "".join(f"message M{n} {{ {wide} }}\n" for n in range(300))
    fields = "".join(f"M{n} m{n} = {n + 1};\n" for n in range(300))
    linked = link(compiled(f'syntax = "proto3"; {messages} message Root {{ {fields} }}').file)
    text = schema_of(linked.pool.FindMessageTypeByName("Root"), {})
    assert len(text) <= MAX_BYTES
    assert not isinstance(compile_schema(text), str)


@pytest.mark.requirement("GRPC-6")
def test_an_enum_of_very_many_values_is_told_in_words() -> None:
    values = "".join(f"V{n} = {n};\n" for n in range(MAX_ENUM_VALUES + 1))
    linked = link(compiled(f'syntax = "proto3"; package p; enum E {{ {values} }} message M {{ E e = 1; }}').file)
    assert schema("p.M", linked)["properties"]["e"] == {
        "type": "string",
        "description": f"A name of p.E, which has {MAX_ENUM_VALUES + 1}, such as V0, V1, V2, V3, V4.",
    }


@pytest.mark.requirement("GRPC-6")
def test_enums_that_are_many_together_do_not_make_a_schema_endless() -> None:
    enums = "".join(f"enum E{n} {{ {' '.join(f'E{n}_VALUE_{v} = {v};' for v in range(150))} }}\n" for n in range(40))
    fields = "".join(f"E{n} e{n} = {n + 1};\n" for n in range(40))
    linked = link(compiled(f'syntax = "proto3"; package p; {enums} message M {{ {fields} }}').file)
    found = schema("p.M", linked)["properties"]
    assert "enum" in found["e0"]
    assert "enum" not in found["e39"]


@pytest.mark.requirement("GRPC-28")
def test_a_listing_that_is_given_up_ends() -> None:
    with pytest.raises(TimeoutError):
        listing_of("s", linked_shop(), [SERVICE], (), {}, lambda: True)


@pytest.mark.requirement("GRPC-7")
def test_comments_describe_tools_fields_messages_and_enums() -> None:
    tools = {tool.ref.native_name: tool.description for tool in listing(shop(), SERVICE).tools}
    assert tools["get_product"] == "Reads one product by its name."
    assert tools["shout"] == "Calls shop.v1.ProductService.Shout."
    assert tools["replace_labels"].endswith("Deprecated.")
    product = schema("shop.v1.Product")
    assert product["description"] == "A product. At most one of amount, onRequest."
    assert product["properties"]["stock"]["description"] == "Pieces in stock."
    kind = product["properties"]["kind"]["description"]
    assert kind == "How it is sold. Kinds of products. PIECE: By the piece. WEIGHT: By weight."


@pytest.mark.requirement("GRPC-10")
def test_what_takes_a_stream_or_is_not_there_is_reported() -> None:
    linked = linked_shop()
    found = listing_of("s", linked, [SERVICE, "no.Such"], (SERVICE, "other.*"), {"gone.G": "nobody knows it"})
    assert [failure.message for failure in found.left_out] == [
        "'gone.G' of 's' is left out: nobody knows it",
        "'no.Such' of 's' is left out: its description cannot be used: no file describes it",
        "'other.*' of 's' is left out: there is no such service",
        "'shop.v1.ProductService.ImportProducts' of 's' is left out: it takes a stream of requests",
        "'shop.v1.ProductService.Chat' of 's' is left out: it takes a stream of requests",
    ]


@pytest.mark.requirement("GRPC-29")
def test_grpcs_own_services_are_wanted_only_by_name() -> None:
    assert wants((), "shop.v1.ProductService")
    assert not wants((), "grpc.health.v1.Health")
    assert wants(("grpc.health.*",), "grpc.health.v1.Health")
    assert not wants(("grpc.health.*",), "shop.v1.ProductService")


def file(name: str, *imports: str, package: str = "", field: str = "", service: bool = True) -> FileDescriptorProto:
    """A file with a message, a field of a type if one is named, and a service."""
    made = FileDescriptorProto(name=name, package=package or name, syntax="proto3", dependency=imports)
    message = made.message_type.add(name="M")
    if field:
        message.field.add(name="f", number=1, label=1, type=11, type_name=field)
    if service:
        type_name = f".{made.package}.M"
        made.service.add(name="S").method.add(name="Do", input_type=type_name, output_type=type_name)
    return made


@pytest.mark.requirement("GRPC-11")
def test_an_import_that_is_missing_and_not_needed_is_dropped() -> None:
    linked = link([file("a", "missing/options.proto"), file("b", "a", "missing/options.proto", field=".a.M")])
    assert sorted(linked.services) == ["a.S", "b.S"]
    assert not linked.broken


@pytest.mark.requirement("GRPC-11")
def test_a_file_that_needs_what_is_missing_is_left_out_with_what_needs_it() -> None:
    files = [file("bad", "missing", field=".missing.M"), file("needs", "bad", field=".bad.M"), file("good")]
    linked = link(files)
    assert sorted(linked.services) == ["good.S"]
    assert sorted(linked.broken) == ["bad", "needs"]
    found = listing_of("s", linked, ["bad.S", "good.S"], (), {})
    assert [tool.ref.native_name for tool in found.tools] == ["do"]
    assert "'bad.S' of 's' is left out: its description cannot be used" in found.left_out[0].message


@pytest.mark.requirement("GRPC-11")
def test_files_that_import_each_other_are_left_out_alone() -> None:
    linked = link([file("a", "b", field=".b.M"), file("b", "c", field=".c.M"), file("c", "a", field=".a.M"), file("d")])
    assert sorted(linked.services) == ["d.S"]
    assert sorted(linked.broken) == ["a", "b", "c"]


@pytest.mark.requirement("GRPC-11")
def test_a_very_long_chain_of_imports_is_linked() -> None:
    files = [file("f0")] + [file(f"f{n}", f"f{n - 1}", field=f".f{n - 1}.M") for n in range(1, 3000)]
    assert len(link(reversed(files)).services) == 3000


@pytest.mark.requirement("GRPC-11")
def test_well_known_types_are_ours_whatever_a_service_calls_so() -> None:
    evil = FileDescriptorProto(name="google/protobuf/timestamp.proto", package="google.protobuf", syntax="proto3")
    evil.message_type.add(name="Timestamp").field.add(name="seconds", number=1, label=1, type=9)
    again = FileDescriptorProto(name="x/timestamp.proto", package="google.protobuf", syntax="proto3")
    again.message_type.add(name="Struct")
    linked = link([evil, again, file("a", evil.name, field=".google.protobuf.Timestamp")])
    assert list(linked.broken) == ["x/timestamp.proto"]
    seconds = linked.pool.FindMessageTypeByName("google.protobuf.Timestamp").fields_by_name["seconds"]
    assert seconds.type == seconds.TYPE_INT64
    assert schema("a.M", linked)["properties"]["f"]["format"] == "date-time"


@pytest.mark.requirement("GRPC-11")
@given(data=st.data())
def test_files_with_anything_changed_link_or_are_reported_and_never_raise(data: st.DataObject) -> None:
    original = shop().file[-1].SerializeToString()
    at = data.draw(st.integers(0, len(original) - 1))
    changed = original[:at] + data.draw(st.binary(max_size=3)) + original[at + data.draw(st.integers(0, 3)) :]
    made = FileDescriptorProto()
    try:
        made.ParseFromString(changed)
    except Exception:  # noqa: BLE001 - what cannot be parsed comes to nobody
        return
    linked = link([*shop().file[:-1], made])
    for tool in listing_of("s", linked, list(linked.services), (), {}).tools:
        assert json.loads(tool.input_schema_json)["type"] == "object"
