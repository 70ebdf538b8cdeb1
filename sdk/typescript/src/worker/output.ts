/** Results that are no JSON value: bytes, and streams of any size. */

import type { RequestBody } from "../transport.js";

/** What an output may be made of. A function makes it anew each time it has to be sent. */
export type OutputBody = Uint8Array | string | Blob | (() => ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>);

/** A result of any type and size. It is sent before the end of the job is reported. */
export class Output {
  readonly contentType: string;
  readonly fileName: string | undefined;

  constructor(
    readonly body: OutputBody,
    options: { contentType?: string; fileName?: string } = {},
  ) {
    this.contentType = options.contentType ?? "application/octet-stream";
    this.fileName = options.fileName;
  }

  /** @internal */
  open(): RequestBody {
    if (typeof this.body !== "function") return this.body;
    const made = this.body();
    return made instanceof ReadableStream ? made : streamOf(made);
  }

  /** @internal */
  headers(): Record<string, string | undefined> {
    const name = this.fileName?.replace(/["\\\r\n]/g, "_");
    return {
      "content-type": this.contentType,
      "content-disposition": name === undefined ? undefined : `attachment; filename="${name}"`,
    };
  }
}

function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}
