import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

import { isCut, Reader, StreamLost, type Resume } from "../src/cursor.js";
import { RunEventSchema, type RunEvent } from "../src/turnwire/v1/event_pb.js";
import { OnWait, RunTurnResponseSchema, type RunTurnResponse } from "../src/turnwire/v1/turn_service_pb.js";

const QUICK: Resume = { attempts: 2, initialDelayMs: 1, maxDelayMs: 4 };

export function event(sequence: bigint, made: MessageInitShape<typeof RunEventSchema>["event"], iteration = 1): RunEvent {
  return create(RunEventSchema, made === undefined ? { sequence, iteration } : { sequence, iteration, event: made });
}

export const started = event(1n, { case: "runStarted", value: { runId: "run_1" } });

export function words(sequence: bigint, text: string): RunEvent {
  return event(sequence, { case: "textDelta", value: { partId: "part_1", text } });
}

function frame(epoch: bigint, ...events: RunEvent[]): RunTurnResponse {
  const through = events.at(-1)?.sequence ?? 0n;
  return create(RunTurnResponseSchema, { events, epoch, throughSequence: through, lastSequence: through });
}

function fromServer(code: Code): ConnectError {
  return new ConnectError("no", code, undefined, [{ desc: RunEventSchema, value: {} }]);
}

test("a turn gets a request id once, and keeps its own", () => {
  const reader = Reader.ofTurn({}, QUICK);
  const first = reader.next();
  assert.ok("turn" in first);
  assert.match(first.turn.turn?.requestId ?? "", /^[0-9a-f-]{36}$/);
  const again = reader.next();
  assert.ok("turn" in again);
  assert.equal(again.turn.turn?.requestId, first.turn.turn?.requestId);
  const own = Reader.ofTurn({ turn: { requestId: "mine" } }, QUICK).next();
  assert.ok("turn" in own);
  assert.equal(own.turn.turn?.requestId, "mine");
});

test("once the run is known it is watched from the cursor", () => {
  const reader = Reader.ofTurn({ onWait: OnWait.CLOSE }, QUICK);
  reader.apply(frame(3n, started, words(2n, "a")));
  const next = reader.next();
  assert.ok("watch" in next);
  assert.deepEqual(
    [next.watch.runId, next.watch.after?.epoch, next.watch.after?.sequence, next.watch.onWait],
    ["run_1", 3n, 2n, OnWait.CLOSE],
  );
});

test("events that the reader has are dropped, and heartbeats bring nothing", () => {
  const reader = Reader.ofTurn({}, QUICK);
  reader.apply(frame(1n, started, words(2n, "a")));
  const update = reader.apply(frame(1n, words(2n, "a"), words(3n, "b")));
  assert.deepEqual(update?.events.map((each) => each.sequence), [3n]);
  assert.equal(reader.apply(create(RunTurnResponseSchema, { epoch: 1n, throughSequence: 9n })), undefined);
  assert.equal(reader.cursor.sequence, 9n);
});

test("a rewind moves the reader back and tells so", () => {
  const reader = Reader.ofTurn({}, QUICK);
  reader.apply(frame(1n, started, words(2n, "a"), words(3n, "lost")));
  const update = reader.apply({ ...frame(2n, words(3n, "b")), rewindToSequence: 2n });
  assert.equal(update?.rewindTo, 2n);
  assert.deepEqual([reader.cursor.epoch, reader.cursor.sequence], [2n, 3n]);
});

test("an event of an unknown case moves the cursor", () => {
  const reader = Reader.ofTurn({}, QUICK);
  reader.apply(frame(1n, started, event(2n, undefined)));
  assert.equal(reader.cursor.sequence, 2n);
});

test("an end without an error is proper only after the last event or a wait that closes", () => {
  const finished = event(2n, { case: "runFinished", value: {} });
  const waiting = event(2n, { case: "runWaiting", value: {} });
  const resumed = event(3n, { case: "runResumed", value: {} });
  for (const [events, onWait, done] of [
    [[started, finished], OnWait.UNSPECIFIED, true],
    [[started], OnWait.UNSPECIFIED, false],
    [[started, waiting], OnWait.CLOSE, true],
    [[started, waiting], OnWait.UNSPECIFIED, false],
    [[started, waiting, resumed], OnWait.CLOSE, false],
  ] as const) {
    const reader = Reader.ofTurn({ onWait }, QUICK);
    reader.apply(frame(1n, ...events));
    assert.equal(reader.cut() === undefined, done);
  }
  assert.equal(Reader.ofRun({ runId: "run_1", after: { epoch: 1n, sequence: 7n } }, QUICK).cut(), undefined);
});

test("errors of the way are cuts, and those of the server are answers", () => {
  for (const code of [Code.Unavailable, Code.Internal, Code.Unknown, Code.Canceled, Code.Aborted]) {
    assert.ok(isCut(new ConnectError("broken", code)), Code[code]);
  }
  for (const code of [Code.Internal, Code.NotFound, Code.Aborted]) {
    assert.ok(!isCut(fromServer(code)), Code[code]);
  }
  assert.ok(isCut(fromServer(Code.Unavailable)));
  assert.ok(!isCut(new ConnectError("no route", Code.NotFound)));
});

test("after the attempts the stream is lost, unless something came between", () => {
  const reader = Reader.ofTurn({}, QUICK);
  const gone = new ConnectError("gone", Code.Unavailable);
  reader.apply(frame(1n, started));
  for (const sequence of [2n, 3n, 4n]) {
    reader.failed(gone);
    reader.failed(gone);
    reader.apply(frame(1n, words(sequence, "more")));
  }
  reader.failed(gone);
  reader.failed(gone);
  assert.throws(
    () => reader.failed(gone),
    (error) => error instanceof StreamLost && error.runId === "run_1" && error.cursor.sequence === 4n && error.cause === gone,
  );
});
