import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";

import { Client } from "../src/client.js";
import { TurnwireError } from "../src/errors.js";
import { RunTurnResponseSchema, TurnService } from "../src/turnwire/v1/turn_service_pb.js";

/** A server whose run waits for `weather`, and who was cancelled there. */
function waits(more: Partial<ServiceImpl<typeof TurnService>> = {}): { client: Client; cancelled: string[] } {
  const cancelled: string[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(TurnService, {
      async *runTurn() {
        const call = { callId: "call_1", tool: { routedName: "weather" }, argumentsJson: "{}" };
        yield create(RunTurnResponseSchema, {
          epoch: 1n,
          throughSequence: 2n,
          events: [
            { sequence: 1n, event: { case: "runStarted", value: { runId: "run_1" } } },
            { sequence: 2n, event: { case: "runWaiting", value: { clientToolCalls: [call] } } },
          ],
        });
      },
      async *watchRun(_, context) {
        yield {};
        await new Promise((_resolve, reject) => context.signal.addEventListener("abort", () => reject(context.signal.reason)));
      },
      cancelRun(request) {
        cancelled.push(request.runId);
        return {};
      },
      ...more,
    });
  });
  return { client: new Client(transport), cancelled };
}

const own = [
  new RangeError("the window is closed"),
  new TurnwireError(Code.NotFound, "no window", "WINDOW", "", {}, undefined, undefined),
];
for (const error of own) {
  test(`${error.name} where updates are shown ends the call, and a run that waits`, async () => {
    const { client, cancelled } = waits();
    const onUpdate = (): never => {
      throw error;
    };
    await assert.rejects(client.run({}, { tools: { weather: () => "rain" }, onUpdate }), error);
    assert.deepEqual(cancelled, ["run_1"]);
  });
}

test("an answer that is refused ends the call, and a run that waits", async () => {
  const { client, cancelled } = waits({
    submitToolResults() {
      throw new ConnectError("not yours", Code.PermissionDenied);
    },
  });
  const run = client.run({}, { tools: { weather: () => "rain" } });
  await assert.rejects(run, (error: unknown) => ConnectError.from(error).code === Code.PermissionDenied);
  assert.deepEqual(cancelled, ["run_1"]);
});

test("a run that is to go on without its caller is left", async () => {
  const { client, cancelled } = waits();
  const onUpdate = (): never => {
    throw new RangeError("the window is closed");
  };
  const turn = { turn: { sessionId: "s" } };
  await assert.rejects(client.run(turn, { tools: { weather: () => "rain" }, onUpdate }), RangeError);
  assert.deepEqual(cancelled, []);
});
