/** Handlers for Express and whatever else has Node's requests and responses. */

import type { IncomingMessage, ServerResponse } from "node:http";

import {
  answerDelivery, answerJob, type DeliveryHandler, type HttpJobHandler, type JobHandlerOptions, type RawAnswer, type RawRequest,
  type WebhookHandlerOptions,
} from "./handlers.js";

export type { DeliveryHandler, HttpJobContext, HttpJobHandler, JobHandlerOptions, WebhookHandlerOptions } from "./handlers.js";

/** Bytes of a request body. An input has at most 1 MiB, a delivery less. */
const BODY_BYTES_MAX = 16 * 1024 * 1024;

export type NodeHandler = (request: IncomingMessage & { body?: unknown }, response: ServerResponse) => Promise<void>;

/** Does the jobs that `forgerun worker http --url` posts here. */
export function jobHandler<I = any, O = unknown>(handler: HttpJobHandler<I, O>, options: JobHandlerOptions = {}): NodeHandler {
  return (request, response) => answer(request, response, (raw) => answerJob(raw, handler, options));
}

/** Takes the deliveries of a webhook, once they are verified. Put it before any parser of bodies, or behind `express.raw()`. */
export function webhookHandler(handler: DeliveryHandler, options: WebhookHandlerOptions): NodeHandler {
  return (request, response) => answer(request, response, (raw) => answerDelivery(raw, handler, options));
}

async function answer(
  request: IncomingMessage & { body?: unknown },
  response: ServerResponse,
  act: (raw: RawRequest) => Promise<RawAnswer>,
): Promise<void> {
  const gone = new AbortController();
  response.on("close", () => response.writableFinished || gone.abort(new DOMException("the caller is gone", "AbortError")));
  const body = await bodyOf(request);
  if (body === undefined) {
    response.writeHead(413, { connection: "close" }).end();
    return;
  }
  const { method = "POST", headers } = request;
  const { status, headers: fields, body: text } = await act({ method, headers, body, signal: gone.signal });
  response.writeHead(status, fields).end(text);
}

async function bodyOf(request: IncomingMessage & { body?: unknown }): Promise<Uint8Array | undefined> {
  if (request.body instanceof Uint8Array) return request.body;
  if (request.body !== undefined && request.readableEnded) {
    throw new TypeError("the body was parsed before it could be verified; use express.raw({ type: () => true }) for this route");
  }
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Uint8Array>) {
    size += piece.length;
    if (size > BODY_BYTES_MAX) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
