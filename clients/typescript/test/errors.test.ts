import assert from "node:assert/strict";
import { test } from "node:test";

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";

import { errorOf, TurnwireError } from "../src/errors.js";

test("an error of the server has its reason, its metadata and when to try again", () => {
  const entry = new BinaryWriter().tag(1, 2).string("agent_id").tag(2, 2).string("x").finish();
  const info = new BinaryWriter().tag(1, 2).string("AGENT_NOT_FOUND").tag(2, 2).string("turnwire.v1");
  info.tag(3, 2).bytes(entry).tag(9, 0).int32(7); // and a field of later
  const delay = new BinaryWriter().tag(1, 0).int64(2).tag(2, 0).int32(500_000_000).finish();
  const given = new ConnectError("No agent.", Code.NotFound);
  given.details = [
    { type: "google.rpc.ErrorInfo", value: info.finish() },
    { type: "google.rpc.RetryInfo", value: new BinaryWriter().tag(1, 2).bytes(delay).finish() },
  ];
  const read = errorOf(given);
  assert.ok(read instanceof TurnwireError);
  assert.deepEqual(
    [read.code, read.reason, read.domain, read.metadata, read.retryDelayMs, read.cause],
    [Code.NotFound, "AGENT_NOT_FOUND", "turnwire.v1", { agent_id: "x" }, 2500, given],
  );
  assert.equal(read.message, "NotFound (AGENT_NOT_FOUND): No agent.");
});

test("an error that no server made is left as it is", () => {
  const broken = new ConnectError("gone", Code.Unavailable);
  assert.equal(errorOf(broken), broken);
  assert.equal(errorOf("anything"), "anything");
});
