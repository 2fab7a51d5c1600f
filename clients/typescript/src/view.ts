/** A run as far as it has been seen: the fold that most callers want over the updates of a stream. */
import { create } from "@bufbuild/protobuf";

import type { Update } from "./cursor.js";
import {
  RunWaitingSchema,
  type RunEvent,
  type RunFinished,
  type RunStarted,
  type RunWaiting,
} from "./turnwire/v1/event_pb.js";
import type { Message } from "./turnwire/v1/message_pb.js";
import type { Outcome } from "./turnwire/v1/outcome_pb.js";
import type { Usage } from "./turnwire/v1/usage_pb.js";

/**
 * Keeps the events of a run and answers the questions that callers ask of them. Memory grows with the run; code that only
 * shows text as it comes needs no view, but must then heed `Update.rewindTo` itself.
 */
export class RunView {
  readonly events: RunEvent[] = [];

  /** Takes one update, in the order in which they come. */
  apply(update: Update): void {
    if (update.rewindTo !== undefined) {
      while ((this.events.at(-1)?.sequence ?? 0n) > update.rewindTo) {
        this.events.pop();
      }
    }
    this.events.push(...update.events);
  }

  /** The first event, once it is there. */
  get started(): RunStarted | undefined {
    const first = this.events[0]?.event;
    return first?.case === "runStarted" ? first.value : undefined;
  }

  /** The last event, once it is there. */
  get finished(): RunFinished | undefined {
    const last = this.events.at(-1)?.event;
    return last?.case === "runFinished" ? last.value : undefined;
  }

  /** The run's id, once it is known. */
  get runId(): string | undefined {
    return this.started?.runId;
  }

  /** How the run ended; undefined while it goes on. */
  get outcome(): Outcome | undefined {
    return this.finished?.outcome;
  }

  /** The final message, when the run has ended with one. */
  get message(): Message | undefined {
    return this.finished?.message;
  }

  /** Tokens of the whole run, once it has ended. */
  get usage(): Usage | undefined {
    return this.finished?.usage;
  }

  /** The JSON text that matches the output format, when one was asked for and the run has ended with it. */
  get structuredOutputJson(): string | undefined {
    return this.finished?.structuredOutputJson;
  }

  /** All that the run waits for from its caller, while it does. */
  get waiting(): RunWaiting | undefined {
    const settled = new Set<string>();
    const told: RunWaiting[] = []; // the newest first
    for (const { event } of this.events.toReversed()) {
      if (event.case === "runWaiting") {
        told.push(event.value);
        if (!event.value.onlyNew) {
          break;
        }
      } else if ((event.case === "runResumed" || event.case === "runFinished") && told.length === 0) {
        return undefined;
      } else if (event.case === "approvalResolved") {
        settled.add(event.value.approvalId);
      } else if (event.case === "toolCallFinished") {
        settled.add(event.value.result?.callId ?? "");
      }
    }
    const newest = told[0];
    if (newest === undefined) {
      return undefined;
    }
    told.reverse();
    return create(RunWaitingSchema, {
      expireTime: newest.expireTime,
      approvals: told.flatMap((one) => one.approvals).filter((one) => !settled.has(one.approvalId)),
      clientToolCalls: told.flatMap((one) => one.clientToolCalls).filter((one) => !settled.has(one.callId)),
    });
  }

  /** The text of the answer: of the final message, or else of the newest iteration as far as it came. */
  get text(): string {
    if (this.message !== undefined) {
      return this.message.parts.map((part) => (part.content.case === "text" ? part.content.value : "")).join("");
    }
    const newest = this.events.reduce((most, event) => Math.max(most, event.iteration), 0);
    const parts = new Map<string, string>();
    for (const { iteration, event } of this.events) {
      if (iteration !== newest) {
        continue;
      }
      if (event.case === "textDelta") {
        parts.set(event.value.partId, (parts.get(event.value.partId) ?? "") + event.value.text);
      } else if (event.case === "partFinished" && event.value.part?.content.case === "text") {
        parts.set(event.value.part.partId, event.value.part.content.value);
      }
    }
    return [...parts.values()].join("");
  }
}
