/** Handlers for Next.js route handlers, and whatever else has the `Request` and `Response` of the web. */

import {
  answerDelivery, answerJob, type DeliveryHandler, type HttpJobHandler, type JobHandlerOptions, type RawAnswer, type RawRequest,
  type WebhookHandlerOptions,
} from "./handlers.js";

export type { DeliveryHandler, HttpJobContext, HttpJobHandler, JobHandlerOptions, WebhookHandlerOptions } from "./handlers.js";

export type WebHandler = (request: Request) => Promise<Response>;

/** Does the jobs that `forgerun worker http --url` posts here: `export const POST = jobHandler(…)`. */
export function jobHandler<I = any, O = unknown>(handler: HttpJobHandler<I, O>, options: JobHandlerOptions = {}): WebHandler {
  return async (request) => response(await answerJob(await read(request), handler, options));
}

/** Takes the deliveries of a webhook, once they are verified: `export const POST = webhookHandler(…)`. */
export function webhookHandler(handler: DeliveryHandler, options: WebhookHandlerOptions): WebHandler {
  return async (request) => response(await answerDelivery(await read(request), handler, options));
}

async function read(request: Request): Promise<RawRequest> {
  const body = new Uint8Array(await request.arrayBuffer());
  return { method: request.method, headers: request.headers, body, signal: request.signal };
}

function response({ status, headers, body }: RawAnswer): Response {
  return new Response(status === 204 ? null : body, { status, headers });
}
