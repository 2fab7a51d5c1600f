// Serves two tools to Turnwire.
//
//   node dist/examples/toolhost/toolhost.js --listen 127.0.0.1:7600
//   node dist/examples/toolhost/toolhost.js --register 127.0.0.1:7443 --id shop
//
// The first is for an address in the configuration ([tool_hosts.shop]); the second makes itself known, and keeps
// itself known for as long as it runs.
import * as http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter, createGrpcTransport } from "@connectrpc/connect-node";

import { ToolHostRegistryService, ToolHostState } from "../../src/turnwire/v1/tool_host_registry_service_pb.js";
import {
  HostedToolSchema,
  ToolHostService,
  type CallToolRequest,
  type CallToolResponseSchema,
  type HostedToolResultSchema,
  type ToolHostServiceListToolsRequest,
} from "../../src/turnwire/v1/tool_host_service_pb.js";

type Frame = MessageInitShape<typeof CallToolResponseSchema>;
type Result = MessageInitShape<typeof HostedToolResultSchema>;

const VERSION = "1"; // changes with the tools
const ORDER = {
  type: "object",
  properties: { number: { type: "integer" } },
  required: ["number"],
  additionalProperties: false,
};
const TOOLS = [
  create(HostedToolSchema, {
    name: "find_order",
    description: "Look an order up.",
    inputSchemaJson: JSON.stringify(ORDER),
    annotations: { readOnly: true },
  }),
  create(HostedToolSchema, {
    name: "ship_order",
    description: "Ship an order.",
    inputSchemaJson: JSON.stringify(ORDER),
    deduplicated: true, // a call that is sent again does nothing more
  }),
];
const shipped = new Map<string, string>(); // by idempotency key; an app keeps this with its data

function listTools(request: ToolHostServiceListToolsRequest) {
  return request.knownVersion === VERSION ? { version: VERSION, unchanged: true } : { tools: TOOLS, version: VERSION };
}

async function* callTool(request: CallToolRequest, context: HandlerContext): AsyncGenerator<Frame> {
  const order = JSON.parse(request.argumentsJson) as { number: number };
  switch (request.name) {
    case "find_order":
      yield { frame: { case: "progress", value: { done: 1, total: 2, message: "asked the warehouse" } } };
      yield result(await find(order.number, context.signal));
      break;
    case "ship_order":
      yield result(text(ship(request, order.number)));
      break;
    default:
      throw new ConnectError(`there is no tool ${request.name}`, Code.Unimplemented);
  }
}

// Stops when nobody waits any more: the signal is aborted when the run is cancelled, or the deadline has passed.
async function find(number: number, signal: AbortSignal): Promise<Result> {
  try {
    await sleep(number === 999 ? 60_000 : 0, undefined, { signal }); // the warehouse is slow for some orders
  } catch (error) {
    console.error("cancelled");
    throw error;
  }
  if (number === 404) {
    return { ...text("There is no such order."), isError: true };
  }
  return { structuredJson: JSON.stringify({ number, state: "PAID" }) };
}

function ship(request: CallToolRequest, number: number): string {
  const known = shipped.get(request.idempotencyKey);
  const words = known ?? `Order ${number} is on its way, for ${request.caller?.principal}.`;
  shipped.set(request.idempotencyKey, words);
  return words;
}

function text(words: string): Result {
  return { content: [{ content: { case: "text", value: words } }] };
}

function result(value: Result): Frame {
  return { frame: { case: "result", value } };
}

// Makes the address known, and again before the lease ends.
async function keepRegistered(server: string, id: string, address: string, signal: AbortSignal): Promise<void> {
  const client = createClient(ToolHostRegistryService, createGrpcTransport({ baseUrl: `http://${server}` }));
  const lease = 30_000;
  while (!signal.aborted) {
    let pause = lease / 3;
    try {
      const request = { hostId: id, address, lease: durationFromMs(lease) };
      const answer = await client.registerToolHost(request, { signal });
      console.error(`registered: ${ToolHostState[answer.toolHost?.state ?? ToolHostState.UNSPECIFIED]}`);
    } catch (error) {
      if (!signal.aborted) {
        console.error(`not registered: ${String(error)}`);
      }
      pause = 1_000;
    }
    await sleep(pause, undefined, { signal }).catch(() => undefined);
  }
  await client.unregisterToolHost({ hostId: id }, { timeoutMs: 2_000 });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      listen: { type: "string", default: "127.0.0.1:0" },
      register: { type: "string" },
      id: { type: "string", default: "shop" },
    },
  });
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.once(name, () => stop.abort());
  }
  const routes = (router: ConnectRouter) => router.service(ToolHostService, { listTools, callTool });
  const server = http2.createServer(connectNodeAdapter({ routes }));
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
  });
  const [host, port] = values.listen.split(":");
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(Number(port), host, resolve);
  });
  const address = `${host}:${(server.address() as AddressInfo).port}`;
  console.log(`listening on ${address}`);
  if (values.register !== undefined) {
    await keepRegistered(values.register, values.id, address, stop.signal);
  } else {
    await new Promise((resolve) => stop.signal.addEventListener("abort", resolve));
  }
  server.close();
  sessions.forEach((session) => session.destroy());
}

await main();
