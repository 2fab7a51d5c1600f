/** For browsers, and whatever has fetch: over Connect, to the server's HTTP port. */
import { createConnectTransport } from "@connectrpc/connect-web";

import { authorized, Client, repeating, type ClientOptions } from "./client.js";
import { DEFAULT_RESUME } from "./cursor.js";

/** A client of the server at a URL such as `http://127.0.0.1:7480`. Its origin must be one that the server allows. */
export function createWebClient(baseUrl: string, options: ClientOptions = {}): Client {
  const interceptors = [repeating(options.resume ?? DEFAULT_RESUME), authorized(options.token)];
  return new Client(createConnectTransport({ baseUrl, interceptors, useBinaryFormat: true }), options);
}
