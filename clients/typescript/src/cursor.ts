/**
 * Where a reader of a run stands, and what a stream that ended means for it. All rules of resuming, without a network, a
 * clock or a promise.
 */
import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

import { CursorSchema, type Cursor, type RunEvent } from "./turnwire/v1/event_pb.js";
import {
  OnWait,
  RunTurnRequestSchema,
  type RunTurnRequest,
  type RunTurnResponse,
  type StreamDetail,
  TurnSpecSchema,
  WatchRunRequestSchema,
  type WatchRunRequest,
  type WatchRunResponse,
} from "./turnwire/v1/turn_service_pb.js";

/** How often and how fast a cut stream is taken up again. */
export interface Resume {
  /** Calls in a row that bring nothing new; 0 never resumes. */
  readonly attempts: number;
  /** Milliseconds before the first of them. They double with each, and a random part of up to half is taken off. */
  readonly initialDelayMs: number;
  /** The longest of them. */
  readonly maxDelayMs: number;
}

/** Eight attempts, 0.1 to 5 seconds apart. */
export const DEFAULT_RESUME: Resume = { attempts: 8, initialDelayMs: 100, maxDelayMs: 5000 };

/** How long to wait after this many calls in a row that brought nothing, from 1. */
export function delayOf(resume: Resume, failures: number): number {
  const longest = Math.min(resume.initialDelayMs * 2 ** Math.min(failures - 1, 30), resume.maxDelayMs);
  return longest * (1 - Math.random() / 2);
}

/** What one frame brought. */
export interface Update {
  /**
   * When set, first discard every event after this sequence number: another server has taken the run over, and those
   * events never became part of it.
   */
  readonly rewindTo: bigint | undefined;
  /** In order; perhaps none. */
  readonly events: readonly RunEvent[];
  /** The place after them: a later watch goes on from it. */
  readonly cursor: Cursor;
}

/** The stream was cut and could not be taken up again in the attempts allowed. The run may still go on. */
export class StreamLost extends Error {
  override readonly name = "StreamLost";

  constructor(
    /** Undefined when the server never told it. */
    readonly runId: string | undefined,
    /** Where the reader stood. */
    readonly cursor: Cursor,
    cause?: unknown,
  ) {
    const why = cause instanceof Error ? ` (${cause.message})` : "";
    super(
      runId === undefined
        ? `no stream was begun: the server could not be reached${why}`
        : `run ${runId}: cut after event ${cursor.sequence} and not resumed${why}`,
      { cause },
    );
  }
}

const CUT_ON_THE_WAY = new Set([Code.Canceled, Code.Unknown, Code.Internal, Code.Aborted, Code.DataLoss]);

/**
 * Whether an error says that the connection broke, rather than what the server thinks of the call: every error of a
 * server has details, and one made on the way to it has none.
 */
export function isCut(error: unknown): boolean {
  const told = ConnectError.from(error);
  return told.code === Code.Unavailable || (CUT_ON_THE_WAY.has(told.code) && told.details.length === 0);
}

/** The next call: the turn until the run is known, then a watch. Both go on after the cursor. */
export type Next = { turn: RunTurnRequest } | { watch: WatchRunRequest };

/** Reads one run through any number of calls. */
export class Reader {
  readonly #resume: Resume;
  readonly #turn: RunTurnRequest | undefined;
  readonly #detail: StreamDetail;
  readonly #onWait: OnWait;
  #runId: string | undefined;
  #epoch: bigint;
  #sequence: bigint;
  #failures = 0;
  #waiting = false;
  #atEnd: boolean; // perhaps: until a frame comes
  #finished = false;

  private constructor(request: RunTurnRequest | WatchRunRequest, turn: RunTurnRequest | undefined, resume: Resume) {
    this.#resume = resume;
    this.#turn = turn;
    this.#detail = request.streamDetail;
    this.#onWait = request.onWait;
    this.#epoch = request.after?.epoch ?? 0n;
    this.#sequence = request.after?.sequence ?? 0n;
    this.#atEnd = this.#sequence > 0n;
  }

  /** Of a turn. Without a request id, trying again before the first answer could start a second run: it gets one. */
  static ofTurn(given: MessageInitShape<typeof RunTurnRequestSchema>, resume: Resume = DEFAULT_RESUME): Reader {
    const request = clone(RunTurnRequestSchema, create(RunTurnRequestSchema, given));
    request.turn ??= create(TurnSpecSchema);
    request.turn.requestId ||= crypto.randomUUID();
    return new Reader(request, request, resume);
  }

  /** Of a run that exists. */
  static ofRun(given: MessageInitShape<typeof WatchRunRequestSchema>, resume: Resume = DEFAULT_RESUME): Reader {
    const request = create(WatchRunRequestSchema, given);
    const reader = new Reader(request, undefined, resume);
    reader.#runId = request.runId;
    return reader;
  }

  get runId(): string | undefined {
    return this.#runId;
  }

  get finished(): boolean {
    return this.#finished;
  }

  get cursor(): Cursor {
    return create(CursorSchema, { epoch: this.#epoch, sequence: this.#sequence });
  }

  next(): Next {
    if (this.#turn !== undefined && this.#runId === undefined) {
      if (this.#sequence > 0n) {
        this.#turn.after = this.cursor;
      }
      return { turn: this.#turn };
    }
    return {
      watch: create(WatchRunRequestSchema, {
        runId: this.#runId ?? "",
        after: this.cursor,
        streamDetail: this.#detail,
        onWait: this.#onWait,
      }),
    };
  }

  /** What a frame brings; undefined for a heartbeat that brings nothing. */
  apply(frame: RunTurnResponse | WatchRunResponse): Update | undefined {
    this.#atEnd = false;
    const [epoch, sequence] = [this.#epoch, this.#sequence];
    const rewindTo = frame.rewindToSequence;
    if (rewindTo !== undefined && rewindTo < this.#sequence) {
      this.#sequence = rewindTo;
    }
    const events = frame.events.filter((event) => event.sequence > this.#sequence);
    for (const event of events) {
      this.#sequence = event.sequence;
      this.#see(event);
    }
    this.#epoch = frame.epoch || this.#epoch;
    if (frame.throughSequence > this.#sequence) {
      this.#sequence = frame.throughSequence;
    }
    if (this.#epoch !== epoch || this.#sequence !== sequence) {
      this.#failures = 0;
    }
    return events.length === 0 && rewindTo === undefined ? undefined : { rewindTo, events, cursor: this.cursor };
  }

  /**
   * The call ended without an error: undefined when that was its proper end, else the milliseconds until the next one.
   * A reader that begins after the last event is sent no frame, and then an end is all that is left to say.
   */
  cut(): number | undefined {
    if (this.#finished || this.#atEnd || (this.#waiting && this.#onWait === OnWait.CLOSE)) {
      return undefined;
    }
    return this.#nextDelay(undefined);
  }

  /** The call ended with an error: the milliseconds until the next one. Throws what another call would only repeat. */
  failed(error: unknown): number {
    if (!isCut(error)) {
      throw error;
    }
    return this.#nextDelay(error);
  }

  #nextDelay(why: unknown): number {
    this.#failures += 1;
    if (this.#failures > this.#resume.attempts) {
      throw new StreamLost(this.#runId, this.cursor, why);
    }
    return delayOf(this.#resume, this.#failures);
  }

  #see(event: RunEvent): void {
    switch (event.event.case) {
      case "runWaiting":
        this.#waiting = true; // until it goes on: more may be told meanwhile
        break;
      case "runResumed":
        this.#waiting = false;
        break;
      case "runStarted":
        this.#runId = event.event.value.runId;
        break;
      case "runFinished":
        this.#finished = true;
        break;
      default:
        break;
    }
  }
}
