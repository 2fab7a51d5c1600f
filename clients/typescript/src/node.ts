/** For Node.js: over gRPC, to the address that `turnwire serve` names. */
import { createGrpcTransport } from "@connectrpc/connect-node";

import { authorized, Client, MAX_MESSAGE_BYTES, repeating, type ClientOptions } from "./client.js";
import { DEFAULT_RESUME } from "./cursor.js";

/** A client of the server at an address such as `127.0.0.1:7443`, or at a URL; https is TLS, all else in the clear. */
export function createNodeClient(target: string, options: ClientOptions = {}): Client {
  const transport = createGrpcTransport({
    baseUrl: /^https?:/.test(target) ? target : `http://${target}`,
    interceptors: [repeating(options.resume ?? DEFAULT_RESUME), authorized(options.token)],
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
  });
  return new Client(transport, options);
}
