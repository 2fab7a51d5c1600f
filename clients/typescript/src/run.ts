/** A run that is followed and answered: client-executed tools are functions, approvals go to a callback. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

import type { Client, FollowOptions } from "./client.js";
import { sleep, UNARY_TIMEOUT_MS } from "./client.js";
import { delayOf, Reader, type Resume, type Update } from "./cursor.js";
import { errorOf, TurnwireError } from "./errors.js";
import { ApprovalDecision, type Approval } from "./turnwire/v1/approval_pb.js";
import type { RunWaiting } from "./turnwire/v1/event_pb.js";
import { ToolResultStatus, type ToolCall } from "./turnwire/v1/message_pb.js";
import { OnDisconnect, OnWait, RunTurnRequestSchema, type RunTurnRequest } from "./turnwire/v1/turn_service_pb.js";
import { RunView } from "./view.js";

/**
 * A function that the model may call and that runs here. `arguments_` are the model's, parsed; `call.argumentsJson` has
 * them as they came, with numbers that JavaScript cannot hold. A string that it returns is sent as text, anything else as
 * JSON; what it throws is told to the model, which may try something else.
 */
export type Tool = (arguments_: never, call: ToolCall, signal: AbortSignal) => unknown;

/** JSON text that a tool returns as it is. */
export class Json {
  constructor(readonly text: string) {}
}

/** The answer to an approval. */
export interface Decision {
  readonly decision: ApprovalDecision;
  /** Told to the model on reject. */
  readonly comment?: string;
  /** Those of the approval's that always is for; none: all. */
  readonly alwaysPatterns?: readonly string[];
  /** What a tool asked for, when the approval has a schema. */
  readonly inputJson?: string;
}

export const ONCE: Decision = { decision: ApprovalDecision.ONCE };
/** For the session. */
export const ALWAYS: Decision = { decision: ApprovalDecision.ALWAYS };

/** Deny the call; the model is told why. */
export function reject(comment = ""): Decision {
  return { decision: ApprovalDecision.REJECT, comment };
}

/** What is done with what a run waits for. */
export interface RunOptions extends FollowOptions {
  /** By the name under which the request declares them. They run side by side. */
  readonly tools?: Readonly<Record<string, Tool>> | undefined;
  /** Asked about each approval. What it throws ends the run. */
  readonly approve?: ((approval: Approval, signal: AbortSignal) => Decision | Promise<Decision>) | undefined;
  /** Told of each update, after the view has it. */
  readonly onUpdate?: ((update: Update, view: RunView) => void) | undefined;
}

/** Somebody or something else was first; the stream says so too. */
const LATE = new Set(["RUN_SETTLED", "APPROVAL_ALREADY_RESOLVED", "APPROVAL_NOT_FOUND"]);
const CANCEL_MS = 5000;

/** One run. */
export class Run {
  readonly #client: Client;
  readonly #resume: Resume;
  readonly #options: RunOptions;
  readonly #view = new RunView();
  readonly #begun = new Map<string, Promise<void>>();
  readonly #work = new AbortController();
  #failure: { error: unknown } | undefined;
  #answering = false;
  #waited = false;

  constructor(client: Client, resume: Resume, options: RunOptions) {
    this.#client = client;
    this.#resume = resume;
    this.#options = options;
  }

  async toItsEnd(given: MessageInitShape<typeof RunTurnRequestSchema>): Promise<RunView> {
    const { signal, timeoutMs } = this.#options;
    const end = timeoutMs === undefined ? undefined : Date.now() + timeoutMs;
    const request = create(RunTurnRequestSchema, given);
    const turn = Reader.ofTurn({ ...request, onWait: OnWait.CLOSE }, this.#resume);
    const stop = (): void => this.#work.abort(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) {
      stop();
    }
    try {
      await this.#read(turn, end, false);
      if (this.#answering) {
        const after = { runId: this.#view.runId ?? "", after: turn.cursor, streamDetail: request.streamDetail };
        await this.#read(Reader.ofRun(after, this.#resume), end, true);
      }
      return this.#view;
    } catch (error) {
      // What has begun to wait is past the stream of RunTurn, whose end would have ended it.
      if (this.#waited && !this.#view.finished && (this.#work.signal.aborted || isOver(end)) && endsWithItsStream(request)) {
        await this.#cancel();
      }
      throw this.#failure === undefined ? error : this.#failure.error;
    } finally {
      signal?.removeEventListener("abort", stop);
      this.#work.abort();
    }
  }

  /** A stream to its end, or to where nothing can be answered if it may be left. */
  async #read(reader: Reader, end: number | undefined, leave: boolean): Promise<void> {
    const timeoutMs = end === undefined ? undefined : Math.max(end - Date.now(), 1);
    for await (const update of this.#client.read(reader, { signal: this.#work.signal, timeoutMs })) {
      this.#view.apply(update);
      const waiting = this.#view.waiting;
      this.#waited ||= waiting !== undefined;
      this.#show(update);
      this.#answering = waiting !== undefined && this.#answer(waiting);
      if (leave && waiting !== undefined && !this.#answering) {
        return;
      }
    }
  }

  /** What it throws is the caller's own, and ends the run as their leaving does. */
  #show(update: Update): void {
    try {
      this.#options.onUpdate?.(update, this.#view);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.#work.abort(error);
  }

  /** Begins to answer what is new. False when there is something, and nothing of it can be answered. */
  #answer(waiting: RunWaiting): boolean {
    const { tools = {}, approve } = this.#options;
    let hope = waiting.clientToolCalls.length + waiting.approvals.length === 0;
    for (const call of waiting.clientToolCalls) {
      const tool = Object.hasOwn(tools, call.tool?.routedName ?? "") ? tools[call.tool?.routedName ?? ""] : undefined;
      if (tool !== undefined) {
        hope = true;
        this.#once(call.callId, () => this.#call(call, tool));
      }
    }
    for (const approval of approve === undefined ? [] : waiting.approvals) {
      hope = true;
      this.#once(approval.approvalId, () => this.#resolve(approval, approve!));
    }
    return hope;
  }

  #once(id: string, answer: () => Promise<void>): void {
    if (this.#begun.has(id)) {
      return;
    }
    const failed = (error: unknown): void => {
      const told = errorOf(error);
      if (this.#failure === undefined && !(told instanceof TurnwireError && LATE.has(told.reason))) {
        this.#fail(told);
      }
    };
    this.#begun.set(id, answer().catch(failed));
  }

  async #call(call: ToolCall, tool: Tool): Promise<void> {
    let status = ToolResultStatus.OK;
    let content: { case: "text" | "dataJson"; value: string };
    try {
      const value = await tool(JSON.parse(call.argumentsJson || "{}") as never, call, this.#work.signal);
      content = contentOf(value);
    } catch (error) {
      status = ToolResultStatus.ERROR;
      content = { case: "text", value: error instanceof Error ? error.message : String(error) };
    }
    if (this.#work.signal.aborted) {
      return;
    }
    const results = [{ callId: call.callId, status, content: [{ content }] }];
    const request = { runId: this.#view.runId ?? "", results };
    await this.#send(() => this.#client.turns.submitToolResults(request, this.#bounds()));
  }

  async #resolve(approval: Approval, approve: NonNullable<RunOptions["approve"]>): Promise<void> {
    const { decision, comment = "", alwaysPatterns = [], inputJson } = await approve(approval, this.#work.signal);
    const answer = {
      runId: this.#view.runId ?? "",
      approvalId: approval.approvalId,
      callDigest: approval.callDigest,
      alwaysPatterns: [...alwaysPatterns],
      decision,
      comment,
    };
    const request = inputJson === undefined ? answer : { ...answer, inputJson };
    await this.#send(() => this.#client.turns.resolveApproval(request, this.#bounds()));
  }

  /** An answer is worth as many attempts as the stream: a server that starts again is away for seconds. */
  async #send(call: () => Promise<unknown>): Promise<void> {
    for (let failures = 1; ; failures += 1) {
      try {
        await call();
        return;
      } catch (error) {
        if (ConnectError.from(error).code !== Code.Unavailable || failures > this.#resume.attempts) {
          throw error;
        }
      }
      await sleep(delayOf(this.#resume, failures), this.#work.signal);
    }
  }

  #bounds(): { signal: AbortSignal; timeoutMs: number } {
    return { signal: this.#work.signal, timeoutMs: UNARY_TIMEOUT_MS };
  }

  /** As the end of RunTurn's stream would have: best effort, since whoever called is gone. */
  async #cancel(): Promise<void> {
    const request = { runId: this.#view.runId ?? "", comment: "The caller has gone." };
    await this.#client.turns.cancelRun(request, { timeoutMs: CANCEL_MS }).catch(() => undefined);
  }
}

function contentOf(value: unknown): { case: "text" | "dataJson"; value: string } {
  if (typeof value === "string") {
    return { case: "text", value };
  }
  return { case: "dataJson", value: value instanceof Json ? value.text : (JSON.stringify(value) ?? "null") };
}

function isOver(end: number | undefined): boolean {
  return end !== undefined && Date.now() >= end - 5; // timers and clocks differ by a little
}

function endsWithItsStream(request: RunTurnRequest): boolean {
  switch (request.onDisconnect) {
    case OnDisconnect.UNSPECIFIED:
      return !request.turn?.sessionId;
    case OnDisconnect.CANCEL:
      return true;
    default:
      return false;
  }
}
