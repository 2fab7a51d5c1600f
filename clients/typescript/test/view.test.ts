import assert from "node:assert/strict";
import { test } from "node:test";

import { RunView } from "../src/view.js";
import type { RunEvent } from "../src/turnwire/v1/event_pb.js";
import { event, started, words } from "./cursor.test.js";

function viewOf(...events: RunEvent[]): RunView {
  const view = new RunView();
  apply(view, ...events);
  return view;
}

function apply(view: RunView, ...events: RunEvent[]): void {
  view.apply({ events, rewindTo: undefined, cursor: undefined as never });
}

function pending(view: RunView): string[] | undefined {
  return view.waiting?.clientToolCalls.map((call) => call.callId);
}

function waiting(sequence: bigint, onlyNew: boolean, ...calls: string[]): RunEvent {
  const clientToolCalls = calls.map((callId) => ({ callId }));
  return event(sequence, { case: "runWaiting", value: { onlyNew, clientToolCalls } });
}

test("the text grows with deltas, and is then that of the message", () => {
  const view = viewOf(started, words(2n, "It "), words(3n, "is"));
  assert.equal(view.text, "It is");
  const part = { partId: "part_1", content: { case: "text" as const, value: "It is noon." } };
  apply(view, event(4n, { case: "partFinished", value: { part } }));
  assert.equal(view.text, "It is noon.");
  const parts = [{ content: { case: "text" as const, value: "Noon." } }];
  apply(view, event(5n, { case: "runFinished", value: { message: { parts } } }, 0));
  assert.deepEqual([view.text, view.runId], ["Noon.", "run_1"]);
});

test("the text is of the newest iteration alone", () => {
  const later = event(3n, { case: "textDelta", value: { partId: "part_2", text: "Later" } }, 2);
  assert.equal(viewOf(started, words(2n, "Let me see."), later).text, "Later");
});

test("a rewind takes events back", () => {
  const view = viewOf(started, words(2n, "a"), words(3n, "lost"));
  view.apply({ events: [words(3n, "b")], rewindTo: 2n, cursor: undefined as never });
  assert.deepEqual([view.text, view.events.length], ["ab", 3]);
});

test("what is waited for is the whole set without what has settled", () => {
  const view = viewOf(started);
  assert.equal(pending(view), undefined);
  const done = event(3n, { case: "toolCallFinished", value: { result: { callId: "a" } } });
  apply(view, waiting(2n, false, "a", "b"), done, waiting(4n, true, "c"));
  assert.deepEqual(pending(view), ["b", "c"]);
  apply(view, waiting(5n, false, "c"));
  assert.deepEqual(pending(view), ["c"]);
  apply(view, event(6n, { case: "runResumed", value: {} }));
  assert.equal(pending(view), undefined);
});
