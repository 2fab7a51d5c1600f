/** What a server says when a call fails, with fields. A run that exists ends in band instead. */
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";

/** An error that a Turnwire server gave, from google.rpc.ErrorInfo and RetryInfo. Its `cause` is the ConnectError. */
export class TurnwireError extends Error {
  override readonly name = "TurnwireError";

  constructor(
    readonly code: Code,
    message: string,
    /** A name of the enum `Reason` without its prefix, such as AGENT_NOT_FOUND. */
    readonly reason: string,
    readonly domain: string,
    /** What the reason is about. */
    readonly metadata: Readonly<Record<string, string>>,
    /** How long to wait before trying again, where the server says so. */
    readonly retryDelayMs: number | undefined,
    cause: unknown,
  ) {
    super(`${Code[code]} (${reason}): ${message}`, { cause });
  }
}

/** The error of a server as a TurnwireError; any other, such as that of a connection, as it is. */
export function errorOf(error: unknown): unknown {
  if (!(error instanceof ConnectError) || error.details.length === 0) {
    return error;
  }
  const read: ErrorInfo = { reason: "", domain: "", metadata: {} };
  let retryDelayMs: number | undefined;
  for (const detail of error.details) {
    if (!("type" in detail)) {
      continue; // one that is to be sent
    }
    if (detail.type === "google.rpc.ErrorInfo") {
      readErrorInfo(detail.value, read);
    } else if (detail.type === "google.rpc.RetryInfo") {
      retryDelayMs = readRetryDelay(detail.value);
    }
  }
  return new TurnwireError(error.code, error.rawMessage, read.reason, read.domain, read.metadata, retryDelayMs, error);
}

// google.rpc/error_details.proto, as far as it is read here: generating it would be a package more, for three fields.

interface ErrorInfo {
  reason: string;
  domain: string;
  metadata: Record<string, string>;
}

function readErrorInfo(bytes: Uint8Array, into: ErrorInfo): void {
  each(bytes, (field, reader) => {
    switch (field) {
      case 1:
        into.reason = reader.string();
        return true;
      case 2:
        into.domain = reader.string();
        return true;
      case 3: {
        const entry = { key: "", value: "" };
        each(reader.bytes(), (part, inner) => {
          if (part === 1) {
            entry.key = inner.string();
          } else if (part === 2) {
            entry.value = inner.string();
          }
          return part === 1 || part === 2;
        });
        into.metadata[entry.key] = entry.value;
        return true;
      }
      default:
        return false;
    }
  });
}

function readRetryDelay(bytes: Uint8Array): number | undefined {
  let milliseconds: number | undefined;
  each(bytes, (field, reader) => {
    if (field !== 1) {
      return false;
    }
    milliseconds = 0;
    each(reader.bytes(), (part, inner) => {
      if (part === 1) {
        milliseconds! += Number(inner.int64()) * 1000;
      } else if (part === 2) {
        milliseconds! += inner.int32() / 1e6;
      }
      return part === 1 || part === 2;
    });
    return true;
  });
  return milliseconds;
}

/** Calls `take` for each field; what it does not take is passed over. */
function each(bytes: Uint8Array, take: (field: number, reader: BinaryReader) => boolean): void {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (!take(field, reader)) {
      reader.skip(wireType, field);
    }
  }
}
