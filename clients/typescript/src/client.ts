/** A client of a server, over whatever transport: calls that are followed across cuts, and runs that are answered. */
import { create, type DescService, type MessageInitShape } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import {
  Code,
  ConnectError,
  createClient,
  type CallOptions,
  type Client as ConnectClient,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";

import { DEFAULT_RESUME, delayOf, Reader, type Resume, type Update } from "./cursor.js";
import { errorOf } from "./errors.js";
import { Run, type RunOptions } from "./run.js";
import {
  StartTurnRequestSchema,
  TurnSpecSchema,
  type RunTurnRequestSchema,
  type StartTurnResponse,
  TurnService,
  type WatchRunRequestSchema,
} from "./turnwire/v1/turn_service_pb.js";
import type { RunView } from "./view.js";

/** Size of the largest message sent and received. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** Deadline of calls that are no streams. */
export const UNARY_TIMEOUT_MS = 30_000;
const TRIES = 4;

/** What a transport is made with. */
export interface ClientOptions {
  /** Shown as `authorization: Bearer ...` with every call. */
  readonly token?: string | undefined;
  /** How cut streams are taken up again. */
  readonly resume?: Resume | undefined;
}

/** Of a stream. */
export interface FollowOptions {
  /** Ends the call. A run that RunTurn began ends with it, as its on_disconnect says. */
  readonly signal?: AbortSignal | undefined;
  /** Over all calls; the server takes it as a limit of the run. */
  readonly timeoutMs?: number | undefined;
}

/** Calls a server. Safe for any number of calls at once. */
export class Client {
  /** The calls of TurnService as they are. */
  readonly turns: ConnectClient<typeof TurnService>;
  readonly #transport: Transport;
  readonly #resume: Resume;

  constructor(transport: Transport, options: ClientOptions = {}) {
    this.#transport = transport;
    this.#resume = options.resume ?? DEFAULT_RESUME;
    this.turns = createClient(TurnService, transport);
  }

  /** The calls of another service of the contract. */
  service<S extends DescService>(service: S): ConnectClient<S> {
    return createClient(service, this.#transport);
  }

  /**
   * Runs a turn and yields what happens until RunFinished, or RunWaiting with ON_WAIT_CLOSE. A cut stream is taken up
   * again where it stopped. Throws a TurnwireError of the server, a StreamLost, or the ConnectError of a signal or a
   * deadline. Leaving the loop ends the call.
   */
  follow(request: MessageInitShape<typeof RunTurnRequestSchema>, options: FollowOptions = {}): AsyncGenerator<Update> {
    return this.read(Reader.ofTurn(request, this.#resume), options);
  }

  /** Follows a run that exists, settled or not, from the cursor of the request on. Leaving it does nothing to the run. */
  watch(request: MessageInitShape<typeof WatchRunRequestSchema>, options: FollowOptions = {}): AsyncGenerator<Update> {
    return this.read(Reader.ofRun(request, this.#resume), options);
  }

  /**
   * Runs a turn to its end and answers what it waits for, with the functions of the options. Returns early, with
   * `RunView.waiting` set, when the run waits for nothing that they can answer; it goes on waiting.
   */
  run(request: MessageInitShape<typeof RunTurnRequestSchema>, options: RunOptions = {}): Promise<RunView> {
    return new Run(this, this.#resume, options).toItsEnd(request);
  }

  /** Starts a turn without a stream. Without a request id it gets one, so that trying again is safe. */
  async startTurn(given: MessageInitShape<typeof StartTurnRequestSchema>): Promise<StartTurnResponse> {
    const request = create(StartTurnRequestSchema, given);
    request.turn ??= create(TurnSpecSchema);
    request.turn.requestId ||= crypto.randomUUID();
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.turns.startTurn(request, { timeoutMs: UNARY_TIMEOUT_MS });
      } catch (error) {
        if (attempt === TRIES || ConnectError.from(error).code !== Code.Unavailable) {
          throw errorOf(error);
        }
        await sleep(delayOf(this.#resume, attempt));
      }
    }
  }

  /** What a reader reads, through any number of calls. */
  async *read(reader: Reader, options: FollowOptions): AsyncGenerator<Update> {
    const end = options.timeoutMs === undefined ? undefined : Date.now() + options.timeoutMs;
    for (;;) {
      const controller = new AbortController();
      const signal = options.signal === undefined ? controller.signal : AbortSignal.any([options.signal, controller.signal]);
      const call: CallOptions = { signal };
      if (end !== undefined) {
        call.timeoutMs = Math.max(end - Date.now(), 1);
      }
      let delay: number | undefined;
      try {
        const next = reader.next();
        const frames = "turn" in next ? this.turns.runTurn(next.turn, call) : this.turns.watchRun(next.watch, call);
        for await (const frame of frames) {
          const update = reader.apply(frame);
          if (update !== undefined) {
            yield update;
          }
          if (reader.finished) {
            return;
          }
        }
        delay = reader.cut();
      } catch (error) {
        if (options.signal?.aborted) {
          throw error;
        }
        delay = this.#failed(reader, error);
      } finally {
        controller.abort();
      }
      if (delay === undefined) {
        return;
      }
      await sleep(end === undefined ? delay : Math.min(delay, Math.max(end - Date.now(), 0)), options.signal);
      if (end !== undefined && Date.now() >= end) {
        throw new ConnectError("the operation timed out", Code.DeadlineExceeded);
      }
    }
  }

  #failed(reader: Reader, error: unknown): number {
    try {
      return reader.failed(error);
    } catch (final) {
      throw errorOf(final);
    }
  }
}

/** Shows the token with each call. */
export function authorized(token: string | undefined): Interceptor {
  return (next) => (request) => {
    if (token !== undefined) {
      request.header.set("authorization", `Bearer ${token}`);
    }
    return next(request);
  };
}

/** Repeats the unary calls of which the contract says that repeating is safe, while the server cannot be reached. */
export function repeating(resume: Resume): Interceptor {
  return (next) => async (request) => {
    const safe = !request.stream && request.method.idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await next(request);
      } catch (error) {
        if (!safe || attempt === TRIES || ConnectError.from(error).code !== Code.Unavailable) {
          throw error;
        }
        await sleep(delayOf(resume, attempt), request.signal);
      }
    }
  };
}

/** Resolves after so many milliseconds. Throws what the signal was aborted with. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(ConnectError.from(signal?.reason, Code.Canceled));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) {
      stop();
    } else {
      signal?.addEventListener("abort", stop, { once: true });
    }
  });
}
