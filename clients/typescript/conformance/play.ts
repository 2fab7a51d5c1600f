/** One case of the conformance set that all clients share, played by a client. See docs/clients.md. */
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

import { ALWAYS, Client, Json, ONCE, reject, RunView, StreamLost, TurnwireError } from "../src/index.js";
import type { Resume, Tool, Update } from "../src/index.js";
import type { RunEvent } from "../src/turnwire/v1/event_pb.js";
import { RunEventSchema } from "../src/turnwire/v1/event_pb.js";
import { OutcomeKind, OutcomeKindSchema } from "../src/turnwire/v1/outcome_pb.js";
import { RunTurnRequestSchema, WatchRunRequestSchema } from "../src/turnwire/v1/turn_service_pb.js";

interface ToolCase {
  return?: JsonValue;
  fail?: string;
  echo?: boolean;
}

export interface Case {
  id: string;
  target: string;
  token?: string;
  run?: JsonValue;
  watch?: JsonValue;
  timeout_ms?: number;
  cancel_on?: string;
  tools?: Record<string, ToolCase>;
  approvals?: { decision: "once" | "always" | "reject"; comment?: string };
  resume?: { attempts: number; initial_delay_ms: number; max_delay_ms: number };
}

/** Plays a case; `connect` makes the client. */
export async function play(given: Case, connect: (given: Case, resume: Resume | undefined) => Client): Promise<object> {
  const client = connect(given, resumeOf(given));
  const stop = new AbortController();
  const kept = { rewinds: 0, asked: [] as string[], arguments: {} as Record<string, string[]> };
  let view = new RunView();
  const seen = (update: Update, now: RunView): void => {
    view = now;
    kept.rewinds += update.rewindTo === undefined ? 0 : 1;
    if (given.cancel_on !== undefined && update.events.some((event) => kindOf(event) === given.cancel_on)) {
      stop.abort();
    }
  };
  let failure: object | null = null;
  const bounds = { signal: stop.signal, timeoutMs: given.timeout_ms };
  try {
    if (given.watch !== undefined) {
      for await (const update of client.watch(fromJson(WatchRunRequestSchema, given.watch), bounds)) {
        view.apply(update);
        seen(update, view);
      }
    } else {
      await client.run(fromJson(RunTurnRequestSchema, given.run ?? {}), {
        ...bounds,
        tools: toolsOf(given, kept.arguments),
        approve: given.approvals && ((approval) => {
          kept.asked.push(approval.call?.tool?.routedName ?? "");
          return { once: ONCE, always: ALWAYS, reject: reject(given.approvals?.comment) }[given.approvals!.decision];
        }),
        onUpdate: seen,
      });
    }
  } catch (error) {
    failure = read(error);
  }
  return answer(given, view, kept, failure);
}

function resumeOf({ resume }: Case): Resume | undefined {
  return (
    resume && { attempts: resume.attempts, initialDelayMs: resume.initial_delay_ms, maxDelayMs: resume.max_delay_ms }
  );
}

function toolsOf(given: Case, seen: Record<string, string[]>): Record<string, Tool> {
  const made = (name: string, behaviour: ToolCase): Tool => (_arguments, call) => {
    (seen[name] ??= []).push(call.argumentsJson);
    if (behaviour.fail !== undefined) {
      throw new Error(behaviour.fail);
    }
    return behaviour.echo ? new Json(call.argumentsJson) : behaviour.return;
  };
  return Object.fromEntries(Object.entries(given.tools ?? {}).map(([name, each]) => [name, made(name, each)]));
}

interface Kept {
  rewinds: number;
  asked: string[];
  arguments: Record<string, string[]>;
}

function answer(given: Case, view: RunView, kept: Kept, error: object | null): object {
  let last = 0n;
  let dense = true;
  const kinds: string[] = [];
  for (const event of view.events) {
    dense &&= (event.firstSequence ?? event.sequence) === last + 1n;
    last = event.sequence;
    const kind = kindOf(event);
    if (kinds.at(-1) !== kind) {
      kinds.push(kind);
    }
  }
  const { waiting, usage, outcome } = view;
  return {
    id: given.id,
    run_id: view.runId ?? null,
    text: view.text,
    outcome: outcome === undefined ? null : nameOf(outcome.kind),
    waiting: [
      ...(waiting?.approvals.map((each) => each.approvalId) ?? []),
      ...(waiting?.clientToolCalls.map((each) => each.callId) ?? []),
    ],
    kinds,
    sequences_dense: dense,
    last_sequence: String(last),
    usage: usage && { input_tokens: String(usage.inputTokens), output_tokens: String(usage.outputTokens) },
    tool_arguments: kept.arguments,
    approvals_asked: kept.asked,
    rewinds: kept.rewinds,
    error,
  };
}

function nameOf(kind: OutcomeKind): string {
  return OutcomeKindSchema.value[kind]?.name ?? String(kind);
}

/** The name of the event's case in the contract. */
function kindOf(event: RunEvent): string {
  const name = event.event.case;
  return name === undefined ? "unknown" : (RunEventSchema.field[name]?.name ?? name);
}

/** Sorts an error as the language does. */
function read(error: unknown): object {
  if (error instanceof StreamLost) {
    return { type: "StreamLost" };
  }
  if (error instanceof TurnwireError) {
    const code = Code[error.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
    return { type: "TurnwireError", code, reason: error.reason, domain: error.domain, metadata: error.metadata };
  }
  if (error instanceof ConnectError && error.code === Code.DeadlineExceeded) {
    return { type: "DeadlineExceeded" };
  }
  if (error instanceof ConnectError && error.code === Code.Canceled) {
    return { type: "Cancelled" };
  }
  throw error;
}
